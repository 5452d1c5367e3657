"""Kafka's configurations as documented data: definitions, parsing, layering, and the typed settings they resolve to."""
