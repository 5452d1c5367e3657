"""The concepts that services, client, control plane and command line share: decisions and formats without I/O."""
