"""One partition's replica on this node: its role, what it accepts, the ISR, and how readers of many partitions keep their position.

Reading order: `leadership`, `replica`, `acceptance`, `leader`, `follower`, `fetch_position`, the two readers, `fetch_plan`. Produce and
fetch run through it, so it is called directly and returns what to write; only time and the log's offsets go in.
"""
