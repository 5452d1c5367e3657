"""One partition's log as facts about offsets: what may be appended, who produced it, which epochs it has, what may go."""
