"""Asks Apache Kafka for its configurations: types, defaults, validators, synonyms, and how a fresh node shows them."""
