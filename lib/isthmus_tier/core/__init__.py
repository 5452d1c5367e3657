"""What describes a segment in an object store, without I/O."""
