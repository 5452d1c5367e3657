"""One partition's log as facts about offsets: what may be appended, producers, leader epochs, retention, compaction."""
