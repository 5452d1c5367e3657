"""Records the configurations of Apache Kafka: types, defaults, validators, synonyms, and how a fresh node shows them."""
