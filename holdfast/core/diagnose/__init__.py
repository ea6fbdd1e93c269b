"""Why did an attempt end? From SageMaker's words, the exit and the hosts' last lines."""
