"""How far mirror topics are behind their sources: what the leaders of their partitions know, wherever they are."""

from collections.abc import Collection
from typing import Final

from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.links.promotion import TopicProgress
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.edge.requests.services import NodeServices, endpoint_of

ASK_SECONDS: Final = 2.0
"""How long all of it may take; a failover does not wait longer for numbers that it does not need."""
_TRY_SECONDS: Final = 1.0
"""How long leaders that refuse are asked again."""


async def progress_of(node: NodeServices, topics: Collection[str]) -> dict[str, TopicProgress]:
    """By topic and partition; what cannot be found out in time is None."""
    from isthmus_client.append_mirrored import progress
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import TopicPartition

    image = node.image
    wanted = {
        TopicPartition(topic, index): None
        for topic in topics
        if (known := image.topics.named(topic)) is not None
        for index in sorted(known.partitions)
    }
    found: dict[str, TopicProgress] = {}
    try:
        places = _brokers(image, node.config.listeners.inter_broker)
        async with Client(places, client_id="isthmus-broker", operation_seconds=_TRY_SECONDS) as client:
            told = await progress(client, wanted)
    except ClientError as error:
        told = dict.fromkeys(wanted, error)
    for partition, answer in told.items():
        of_topic = dict(found.get(partition.topic, {}))
        of_topic[partition.partition] = None if isinstance(answer, ClientError) else answer
        found[partition.topic] = of_topic
    return found


def _brokers(image: ClusterImage, listener: str) -> list[Endpoint]:
    endpoints = (endpoint_of(broker, listener) for _, broker in sorted(image.brokers.items()))
    return [Endpoint(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint is not None]
