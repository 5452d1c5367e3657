"""One partition's replica on this node, and how readers of many partitions keep their place."""
