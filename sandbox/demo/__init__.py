"""The demonstration: real stacks, real Lambdas, real training processes, one real hang."""
