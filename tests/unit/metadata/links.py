"""Links and mirror topics in a cluster in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isthmus_broker.core.metadata.links import Mirror, mirror_of
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import CreateLinkRequest, LinkConfig
from isthmus_wire.extensions.mirrors import (
    AlterMirrorsRequest,
    CreateMirrorRequest,
    MirrorAction,
    MirrorError,
    SourceTopic,
)

from tests.unit.metadata.cluster import Cluster

SOURCE = "CAAAAAAAQACAAAAAAAAAAg"
NOW = 1_000


def request_response(cluster: Cluster, request: Any, now_ms: int = NOW) -> Any:
    """The response to a request about links, whose records are replayed."""
    result = cluster.decide(request, now_ms)
    cluster.append(result.records)
    return result.response


def said(response: Any) -> tuple[ErrorCode, str | None]:
    return response.error_code, response.error_message


def configs(settings: Mapping[str, str | None]) -> tuple[LinkConfig, ...]:
    return tuple(LinkConfig(name=name, value=value) for name, value in settings.items())


def new_link(name: str = "west", source: str | None = SOURCE, **given: Any) -> CreateLinkRequest:
    settings = {"bootstrap.servers": "w:9092", **given.pop("settings", {})}
    fields: dict[str, Any] = {"validate_link": True, "validate_only": False, **given}
    return CreateLinkRequest(name=name, source_cluster_id=source, configs=configs(settings), **fields)


def new_mirror(topic: str = "orders", partitions: int = 1, **given: Any) -> CreateMirrorRequest:
    source = SourceTopic(topic_id=None, partitions=partitions, configs=configs(given.pop("source_configs", {})))
    fields: dict[str, Any] = {
        "link_name": "west",
        "mirror_topic": None,
        "replication_factor": 1,
        "configs": configs(given.pop("configs", {})),
        "source": source,
        "validate_only": False,
        **given,
    }
    return CreateMirrorRequest(source_topic=topic, **fields)


def alteration(action: str, *topics: str, error: str = MirrorError.NO_ERROR, **given: Any) -> AlterMirrorsRequest:
    fields: dict[str, Any] = {"mirror_error_message": "", "validate_only": False, **given}
    return AlterMirrorsRequest(action=action, topics=topics, mirror_error=error, **fields)


def alter(cluster: Cluster, action: MirrorAction, topic: str = "orders", **given: Any) -> tuple[ErrorCode, str | None]:
    (answer,) = request_response(cluster, alteration(action, topic, **given)).topics
    return said(answer)


def mirror(cluster: Cluster, topic: str = "orders") -> Mirror:
    found = mirror_of(cluster.image, topic)
    assert found is not None
    return found


def linked(*brokers: int, partitions: int = 1, **given: Any) -> Cluster:
    """A cluster with the link `west` and the mirror topic `orders`."""
    cluster = Cluster(brokers or (1,))
    assert said(request_response(cluster, new_link(**given)))[0] is ErrorCode.none
    assert said(request_response(cluster, new_mirror(partitions=partitions)))[0] is ErrorCode.none
    return cluster
