"""kafka-python's names; its import uses a part of the standard library that Python deprecates, which is no fault of ours."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
    from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError, TopicAlreadyExistsError

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "InvalidProducerEpochError",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "NewTopic",
    "OffsetAndMetadata",
    "ProducerFencedError",
    "TopicAlreadyExistsError",
    "TopicPartition",
]
