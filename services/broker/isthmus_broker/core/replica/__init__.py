"""One partition's replica on this node: its role, the appends it accepts, the ISR, and fetches of many partitions.

Reading order: `leadership`, `replica`, `acceptance`, `leader`, `follower`, `fetch_position`, the two readers, `fetch_plan`. Produce and
fetch run through it, so it is called directly and returns what to write; its only inputs are the time and the log's offsets.
"""
