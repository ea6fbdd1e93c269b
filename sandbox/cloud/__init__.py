"""The embedded AWS: MiniStack in process, what it lacks for Holdfast's stacks, and the life of the whole."""
