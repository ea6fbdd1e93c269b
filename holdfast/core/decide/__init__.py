"""Why did it restart? One policy a file: what is seen goes in, a decision with its reason comes out."""
