"""What a broker asks the source of a link when one is made, or a mirror topic: who it is, and what the topic is like there.

Everything that fails here becomes a refusal in plain words. The link's workers have connections of their own; none is kept.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.extensions.links import LinkConfig
from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS, SourceTopic

from isthmus_broker.core.links.settings import servers_of
from isthmus_broker.core.metadata.links import Link
from isthmus_broker.core.metadata.result import ControllerError

if TYPE_CHECKING:
    from isthmus_client.client import Client

ASK_SECONDS: Final = 10.0
"""How long a source may take to answer before the request that needs it is refused."""


async def cluster_id_of(settings: Mapping[str, str]) -> str:
    """The id of the source; ControllerError when it cannot be reached or does not say."""
    async with _connected(servers_of(settings)) as client:
        return _cluster_id(client)


async def source_topic(link: Link, topic: str, this_cluster: str) -> SourceTopic:
    """What the source says of a topic; ControllerError when it has none, or is another cluster than the link's, or this one."""
    async with _connected(servers_of(link.settings)) as client:
        from isthmus_client.admin import configs, topics
        from isthmus_client.errors import ClientError, Refused

        check_same(link.source_cluster_id, _cluster_id(client))
        if _cluster_id(client) == this_cluster:
            raise ControllerError(
                ErrorCode.invalid_request, "The brokers named by bootstrap.servers are this cluster's own."
            )
        try:
            found = (await topics.describe(client, [topic]))[topic]
        except Refused as refusal:
            why = f"The source refuses topic '{topic}': {refusal.code.name}"
            raise ControllerError(ErrorCode.unknown_topic_or_partition, why) from None
        resource = configs.Resource(configs.ResourceType.TOPIC, topic)
        settings = (await configs.describe(client, [resource]))[resource]
        if isinstance(settings, ClientError):
            raise settings
        return SourceTopic(
            topic_id=found.topic_id,
            partitions=len(found.partitions),
            configs=tuple(
                LinkConfig(name=config.name, value=config.value)
                for config in settings
                if config.is_set
                or (config.name in ALWAYS_SYNCED_CONFIGS and config.source is not configs.Source.DEFAULT)
            ),
        )


def check_same(expected: str, cluster_id: str) -> None:
    """ControllerError when the source is another cluster than it should be; an empty id expects none in particular."""
    if expected not in ("", cluster_id):
        why = f"The brokers named by bootstrap.servers belong to cluster {cluster_id}, not to {expected}."
        raise ControllerError(ErrorCode.invalid_request, why)


def _cluster_id(client: "Client") -> str:
    if client.view.cluster_id is None:
        raise ControllerError(ErrorCode.invalid_request, "The source does not tell its cluster id.")
    return client.view.cluster_id


@asynccontextmanager
async def _connected(servers: str) -> "AsyncIterator[Client]":
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_model.endpoints import parse_bootstrap

    try:
        async with (
            asyncio.timeout(ASK_SECONDS),
            Client(parse_bootstrap(servers), client_id="isthmus-link", operation_seconds=ASK_SECONDS) as client,
        ):
            yield client
    except TimeoutError:
        why = f"The source did not answer within {ASK_SECONDS:.0f} s at {servers}."
        raise ControllerError(ErrorCode.request_timed_out, why) from None
    except (ClientError, WireError) as error:
        raise ControllerError(
            ErrorCode.broker_not_available, f"The source cannot be asked at {servers}: {error}"
        ) from None
