"""Metrics and health over HTTP, and samples of lag and load written to topics of the cluster."""
