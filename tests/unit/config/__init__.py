"""Configurations against the recording of Apache Kafka."""
