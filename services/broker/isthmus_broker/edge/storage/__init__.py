"""Kafka's files: what they contain, how they are replaced, and how a log survives a crash.

Reading order: `filesystem` (the seam to the operating system), `files`, `indexes`, `segment`, `durability`, `log`, `recovery`,
`replacement`, `checkpoints`, `log_dir`.
"""
