"""Lag analytics: Spark jobs over the samples that links, mirrors and replicas write."""
