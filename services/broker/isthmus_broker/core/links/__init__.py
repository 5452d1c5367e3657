"""Links: their settings and the state transitions of mirror topics. Pure, and independent of any cluster's metadata."""
