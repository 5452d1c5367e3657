"""Links by themselves: their settings, and what may become of a mirror topic. Pure, and without any cluster's metadata."""
