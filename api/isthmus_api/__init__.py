"""The control plane: REST, its store, its tasks, and the console's files."""
