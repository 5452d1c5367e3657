"""AppendMirrored, version 0, an API of our own: a link's batches, appended at the offsets that they have at the source.

Answered as a produce request with acks=all: when every in-sync replica has them, or the time is over. An append names the offset where the
log must end, so one that is sent twice, or by a worker that should be gone, changes nothing.
"""

from typing import Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_mirrored import (
    AppendRequest,
    PartitionAppend,
    TopicAppend,
    decode_append_request,
)
from isthmus_wire.extensions.mirrors import (
    AppendedPartition,
    AppendedTopic,
    AppendMirroredResponse,
)

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.clock import now_ms
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.replica.committing import Uncommitted
from isthmus_broker.edge.replica.mirrored import append_mirrored, appended
from isthmus_broker.edge.replica.partition import Partition
from isthmus_broker.edge.replica.waiting import Waiting
from isthmus_broker.edge.services import Services

TIMEOUT_MAX_MS: Final = 300_000
"""The longest that an append may wait for its replicas, whatever it asks for."""


class _Append:
    """What became of one partition's batches; while `waits` is set they are in this log, and not yet in all others."""

    __slots__ = ("index", "partition", "refusal", "waits")

    def __init__(self, node: Services, asked: AppendRequest, topic: TopicAppend, part: PartitionAppend) -> None:
        self.index = part.partition
        self.partition: Partition | None = None
        self.waits: Uncommitted | None = None
        found = node.replicas.find(topic.name, part.partition)
        if isinstance(found, ErrorCode):
            self.refusal: Refusal | None = Refusal(found)
            return
        self.partition = found
        if found.topic_id != topic.topic_id:
            self.refusal = Refusal(ErrorCode.inconsistent_topic_id)
            return
        try:
            self.refusal = append_mirrored(found, asked.link_id, part, now_ms())
        except DiskFailure as failure:
            node.replicas.fail(found, failure)
            self.refusal = Refusal(ErrorCode.kafka_storage_error)
        if self.refusal is None and part.records and found.has_uncommitted:
            self.waits = Uncommitted.now(found)

    def look(self) -> bool:
        """Whether the outcome is known."""
        outcome = None if self.waits is None else self.waits.outcome()
        if outcome is not None:
            self._settle(outcome)
        return self.waits is None

    def give_up(self) -> None:
        """The time is over."""
        if self.waits is not None:
            self._settle(ErrorCode.request_timed_out)

    def _settle(self, outcome: ErrorCode) -> None:
        self.waits = None
        self.refusal = None if outcome is ErrorCode.none else Refusal(outcome)

    def answer(self) -> AppendedPartition:
        """As it stands."""
        return appended(self.partition, self.index, self.refusal)


@handles(ApiKey.APPEND_MIRRORED)
def append(node: Services, request: Request) -> None:
    """Append at once, and answer when it is committed."""
    asked = decode_append_request(request.frame, request.header.size)
    topics = [(topic.name, [_Append(node, asked, topic, part) for part in topic.partitions]) for topic in asked.topics]
    appends = [one for _, of_topic in topics for one in of_topic]
    pending = [one.waits.partition for one in appends if one.waits is not None]

    def look() -> bool:
        known = [one.look() for one in appends]
        return all(known)

    def answer(_is_complete: bool) -> None:
        for one in appends:
            one.give_up()
        told = (AppendedTopic(name=name, partitions=tuple(one.answer() for one in made)) for name, made in topics)
        request.respond(AppendMirroredResponse(topics=tuple(told)))

    if look():
        answer(True)
    else:
        waiting = Waiting(pending, min(max(asked.timeout_ms, 0), TIMEOUT_MAX_MS), look, bool, answer)
        request.defer(waiting.cancel)
