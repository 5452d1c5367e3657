"""Queries to the source cluster when a link or a mirror topic is created: the cluster's id, and the topic's partitions and settings.

Every failure becomes a refusal with an explanation. The connections are closed afterwards; the link's workers have their own.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from isthmus_model.config_resources import ResourceType
from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.extensions.links import LinkConfig
from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS, SourceTopic

from isthmus_broker.core.links.settings import servers_of
from isthmus_broker.core.metadata.links import Link
from isthmus_broker.core.metadata.result import ControllerError

if TYPE_CHECKING:
    from isthmus_client.client import Client

QUERY_SECONDS: Final = 10.0
"""Timeout of the queries to a source cluster."""


async def cluster_id_of(settings: Mapping[str, str]) -> str:
    """The source's cluster id; ControllerError if it cannot be reached or does not report one."""
    async with _connected(servers_of(settings)) as client:
        return _cluster_id(client)


async def source_topic(link: Link, topic: str, this_cluster: str) -> SourceTopic:
    """Describe a topic at the source; ControllerError if it does not exist, or if the cluster is not the link's source, or is this one."""
    async with _connected(servers_of(link.settings)) as client:
        from isthmus_client.admin import configs, topics
        from isthmus_client.errors import ClientError, Refused

        check_same(link.source_cluster_id, _cluster_id(client))
        if _cluster_id(client) == this_cluster:
            raise ControllerError(
                ErrorCode.invalid_request, "The brokers named by bootstrap.servers are this cluster's own."
            )
        try:
            description = (await topics.describe(client, [topic]))[topic]
        except Refused as refusal:
            why = f"The source refuses topic '{topic}': {refusal.code.name}"
            raise ControllerError(ErrorCode.unknown_topic_or_partition, why) from None
        resource = configs.Resource(ResourceType.TOPIC, topic)
        settings = (await configs.describe(client, [resource]))[resource]
        if isinstance(settings, ClientError):
            raise settings
        return SourceTopic(
            topic_id=description.topic_id,
            partitions=len(description.partitions),
            configs=tuple(
                LinkConfig(name=config.name, value=config.value)
                for config in settings
                if config.is_set
                or (config.name in ALWAYS_SYNCED_CONFIGS and config.source is not configs.Source.DEFAULT)
            ),
        )


def check_same(expected: str, cluster_id: str) -> None:
    """Raise ControllerError if the source is not the expected cluster; an empty id matches any."""
    if expected not in ("", cluster_id):
        why = f"The brokers named by bootstrap.servers belong to cluster {cluster_id}, not to {expected}."
        raise ControllerError(ErrorCode.invalid_request, why)


def _cluster_id(client: "Client") -> str:
    if client.view.cluster_id is None:
        raise ControllerError(ErrorCode.invalid_request, "The source does not report its cluster id.")
    return client.view.cluster_id


@asynccontextmanager
async def _connected(servers: str) -> "AsyncIterator[Client]":
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_model.endpoints import parse_bootstrap

    try:
        async with (
            asyncio.timeout(QUERY_SECONDS),
            Client(parse_bootstrap(servers), client_id="isthmus-link", operation_seconds=QUERY_SECONDS) as client,
        ):
            yield client
    except TimeoutError:
        why = f"The source did not respond within {QUERY_SECONDS:.0f} s at {servers}."
        raise ControllerError(ErrorCode.request_timed_out, why) from None
    except (ClientError, WireError) as error:
        raise ControllerError(
            ErrorCode.broker_not_available, f"The source cannot be queried at {servers}: {error}"
        ) from None
