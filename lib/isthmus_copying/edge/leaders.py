"""The leaders of copied partitions at the source or destination."""

import logging
from collections.abc import Mapping, Sequence

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import Broker, TopicPartition

logger = logging.getLogger(__name__)

Leaders = Mapping[TopicPartition, int]


async def leaders_of(client: Client, partitions: Sequence[TopicPartition], previous: Leaders, copier: str) -> Leaders:
    """The node ids of the leaders; the previous ones while the cluster does not respond, since most still lead."""
    try:
        leaders = await client.leaders(list(partitions))
    except ClientError as error:
        logger.debug("%s: leaders are unknown: %s", copier, error)
        return previous
    for refused in leaders.values():
        if isinstance(refused, Refused):
            client.invalidate(refused)
    return {partition: leader.node_id for partition, leader in leaders.items() if isinstance(leader, Broker)}
