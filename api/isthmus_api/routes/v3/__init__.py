"""Confluent's REST v3 under /kafka/v3: kinds, metadata, names of resources and errors are its own, so that its clients read them."""
