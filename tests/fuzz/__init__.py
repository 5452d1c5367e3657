"""Hostile bytes, from fixed seeds and a committed corpus, for a bounded number of rounds."""
