"""Kafka's files: what they hold, how they are replaced, and how a log survives a crash.

Reading order: `files` (the seam to the operating system), `indexes`, `segment`, `log`, `recovery`, `checkpoints`, `log_dir`.
"""
