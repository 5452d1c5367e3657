"""The controller's state machine and its records, compared with Apache Kafka's logs and responses."""
