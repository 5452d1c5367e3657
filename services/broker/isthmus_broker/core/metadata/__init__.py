"""The cluster's metadata: its records, the image they make, and the controller that decides about new ones."""
