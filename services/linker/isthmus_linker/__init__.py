"""The linker: copies topics between clusters with their offsets."""
