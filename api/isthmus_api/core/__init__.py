"""What the control plane decides, without I/O."""
