"""The active controller of a destination cluster: links and mirror topics, as requests and as records of the metadata log."""

from collections.abc import Iterator
from typing import Any

from isthmus_broker.core.metadata.links import mirrors_of
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import DeleteLinkRequest
from isthmus_wire.extensions.mirrors import (
    EpochFloor,
    FloorsOfTopic,
    MirrorAction,
    MirrorError,
    RaiseLeaderEpochsRequest,
)

from tests.unit.metadata.cluster import Cluster
from tests.unit.metadata.links import alteration, new_link, new_mirror, request_response


class World:
    def __init__(self) -> None:
        self._cluster = Cluster((1,))
        self._now = 1_000

    def create_link(self, name: str) -> Iterator[str]:
        """CreateLink."""
        yield from self._request(new_link(name))

    def delete_link(self, name: str, force: str = "false") -> Iterator[str]:
        """DeleteLink; `force=true` also stops its mirror topics."""
        yield from self._request(DeleteLinkRequest(name=name, force=force == "true", validate_only=False))

    def create_mirror(self, topic: str, link: str = "west", partitions: str = "1") -> Iterator[str]:
        """CreateMirror."""
        yield from self._request(new_mirror(topic, int(partitions), link_name=link))

    def raise_epochs(self, topic: str, **floors: str) -> Iterator[str]:
        """RaiseLeaderEpochs, as a worker sends it to stay above the source's epochs; `p0=12` is partition 0."""
        parts = tuple(EpochFloor(index=int(name[1:]), at_least=int(epoch)) for name, epoch in floors.items())
        yield from self._request(RaiseLeaderEpochsRequest(topics=(FloorsOfTopic(name=topic, partitions=parts),)))

    def alter(self, action: str, *topics: str, error: str = "NO_ERROR") -> Iterator[str]:
        """AlterMirrors: PAUSE, RESUME, PROMOTE, COMPLETE_PROMOTION, FAILOVER, ..."""
        yield from self._request(alteration(MirrorAction(action), *topics, error=MirrorError(error)))

    def elapse(self, milliseconds: str) -> Iterator[str]:
        """Let time pass."""
        self._now += int(milliseconds)
        yield from ()

    def status(self) -> Iterator[str]:
        """Every mirror topic: its state and the leader epochs of its partitions."""
        for mirror in mirrors_of(self._cluster.image):
            topic = self._cluster.topic(mirror.topic)
            epochs = [partition.leader_epoch for _, partition in sorted(topic.partitions.items())]
            error = "" if mirror.error == MirrorError.NO_ERROR else f" ({mirror.error})"
            yield f"{mirror.topic}: {mirror.state}{error} since {mirror.since_ms}, leader epochs {epochs}"

    def _request(self, request: Any) -> Iterator[str]:
        before = self._cluster.history.latest_offset
        response = request_response(self._cluster, request, self._now)
        for part in getattr(response, "topics", None) or (response,):
            name = getattr(part, "topic", None) or getattr(part, "name", None)
            shown = "ok" if part.error_code is ErrorCode.none else f"{part.error_code.name}: {part.error_message}"
            yield f"{name}: {shown}" if name else shown
        yield f"{self._cluster.history.latest_offset - before} records"
