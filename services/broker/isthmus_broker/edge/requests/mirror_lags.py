"""The lag of mirror topics behind their sources, queried from the leaders of their partitions."""

from collections.abc import Collection
from typing import Final

from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.links.promotion import TopicProgress
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.edge.requests.services import NodeServices, endpoint_of

QUERY_SECONDS: Final = 2.0
"""Timeout of the whole query: a failover must not wait long for numbers that it does not need."""
_TRY_SECONDS: Final = 1.0
"""How long requests to leaders that refuse are retried."""


async def progress_of(node: NodeServices, topics: Collection[str]) -> dict[str, TopicProgress]:
    """Progress by topic and partition; None where it could not be determined in time."""
    from isthmus_client.append_mirrored import progress
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import TopicPartition

    image = node.image
    partitions = {
        TopicPartition(topic, index): None
        for topic in topics
        if (current := image.topics.named(topic)) is not None
        for index in sorted(current.partitions)
    }
    by_topic: dict[str, TopicProgress] = {}
    try:
        endpoints = _brokers(image, node.config.listeners.inter_broker)
        async with Client(endpoints, client_id="isthmus-broker", operation_seconds=_TRY_SECONDS) as client:
            results = await progress(client, partitions)
    except ClientError as error:
        results = dict.fromkeys(partitions, error)
    for partition, result in results.items():
        of_topic = dict(by_topic.get(partition.topic, {}))
        of_topic[partition.partition] = None if isinstance(result, ClientError) else result
        by_topic[partition.topic] = of_topic
    return by_topic


def _brokers(image: ClusterImage, listener: str) -> list[Endpoint]:
    endpoints = (endpoint_of(broker, listener) for _, broker in sorted(image.brokers.items()))
    return [Endpoint(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint is not None]
