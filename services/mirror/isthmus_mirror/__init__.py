"""The mirror: copies topics between any two clusters and translates offsets exactly."""
