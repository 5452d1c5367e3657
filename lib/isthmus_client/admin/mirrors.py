"""Mirror topics of a destination cluster: create, describe, promote, fail over, pause and so on. Only Isthmus clusters have them."""

from collections.abc import Collection, Mapping
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import LinkConfig
from isthmus_wire.extensions.mirrors import (
    AlteredMirror,
    AlterMirrorsRequest,
    CreateMirrorRequest,
    DescribedMirror,
    DescribeMirrorsRequest,
    EpochFloor,
    FloorsOfTopic,
    MirrorAction,
    MirrorError,
    RaiseLeaderEpochsRequest,
)

from isthmus_client.client import Client
from isthmus_client.errors import Refused, check
from isthmus_client.metadata import TopicPartition, by_topic


async def create_mirror(
    client: Client,
    link: str,
    source_topic: str,
    *,
    mirror_topic: str | None = None,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> tuple[str, UUID | None]:
    """Create a mirror topic of a source topic; returns its name and its id (None if only validated). Raises Refused."""
    request = CreateMirrorRequest(
        link_name=link,
        source_topic=source_topic,
        mirror_topic=mirror_topic,
        replication_factor=replication_factor,
        configs=tuple(LinkConfig(name=name, value=value) for name, value in (configs or {}).items()),
        source=None,
        validate_only=validate_only,
    )
    response = await client.send_to_controller(ApiKey.CREATE_MIRROR, request, lambda r: (r.error_code,))
    check(response.error_code, f"mirror topic {response.topic}", response.error_message)
    return response.topic, response.topic_id


async def describe_mirrors(
    client: Client, *, link: str | None = None, topics: Collection[str] | None = None
) -> list[DescribedMirror]:
    """Describe mirror topics of one link or of all; raises Refused for a named topic that is not a mirror topic."""
    request = DescribeMirrorsRequest(link_name=link, topics=None if topics is None else tuple(topics))
    response = await client.send_to_any(ApiKey.DESCRIBE_MIRRORS, request)
    for mirror in response.mirrors:
        of_link = "" if link is None else f" of link {link}"
        check(mirror.error_code, f"topic {mirror.topic}", f"not a mirror topic{of_link}")
    return list(response.mirrors)


async def alter_mirrors(
    client: Client,
    action: MirrorAction,
    topics: Collection[str],
    *,
    error: MirrorError = MirrorError.NO_ERROR,
    message: str = "",
    validate_only: bool = False,
) -> dict[str, AlteredMirror]:
    """Alter mirror topics and return the result of each; `refusal` turns a result into an error."""
    request = AlterMirrorsRequest(
        action=action,
        topics=tuple(dict.fromkeys(topics)),
        mirror_error=error,
        mirror_error_message=message,
        validate_only=validate_only,
    )
    response = await client.send_to_controller(
        ApiKey.ALTER_MIRRORS, request, lambda r: [t.error_code for t in r.topics]
    )
    return {altered.topic: altered for altered in response.topics}


def refusal(altered: AlteredMirror) -> Refused | None:
    """The error of a topic that was not altered."""
    if altered.error_code is ErrorCode.none:
        return None
    return Refused(altered.error_code, f"mirror topic {altered.topic}", altered.error_message)


async def raise_leader_epochs(client: Client, floors: Mapping[TopicPartition, int]) -> dict[str, Refused | None]:
    """Raise the leader epochs of mirror partitions to at least these. Returns None or the error of each topic."""
    request = RaiseLeaderEpochsRequest(
        topics=tuple(
            FloorsOfTopic(
                name=topic,
                partitions=tuple(EpochFloor(index=i, at_least=floors[TopicPartition(topic, i)]) for i in indexes),
            )
            for topic, indexes in by_topic(floors).items()
        )
    )
    response = await client.send_to_controller(
        ApiKey.RAISE_LEADER_EPOCHS, request, lambda r: [t.error_code for t in r.topics]
    )
    return {
        t.name: None
        if t.error_code is ErrorCode.none
        else Refused(t.error_code, f"mirror topic {t.name}", t.error_message)
        for t in response.topics
    }
