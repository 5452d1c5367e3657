"""What the linker and the mirror share: copying partitions of one cluster into partitions of another."""
