"""One partition's log as facts about offsets: what may be appended, producers, leader epochs, retention and compaction.

It owns the producers' state and the epoch history of a log, which the log's files restore. It is part of every produce, so it is called
directly: a check returns what to write, and the caller writes it before the next call.
"""
