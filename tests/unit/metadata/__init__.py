"""The controller's state machine and its records, against what Apache Kafka wrote and answered."""
