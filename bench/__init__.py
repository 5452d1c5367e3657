"""Isthmus measured beside Apache Kafka, on one machine in one run."""
