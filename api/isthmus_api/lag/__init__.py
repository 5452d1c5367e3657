"""Samples of lag, read from every cluster and kept for a while."""
