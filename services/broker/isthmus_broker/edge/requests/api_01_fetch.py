"""Fetch: read batches from many partitions, waiting for min_bytes up to max_wait.

Sessions (KIP-227) since 7, leader epochs since 9, the consumer's rack and reading from followers (KIP-392) since 11, diverging epochs since
12, topic ids since 13. Records are read from the log file only when the socket has room. Followers and observers of this node's partitions
fetch through this API as well.
"""

import asyncio
from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import TOPIC_ID_SINCE, FetchRequest, FetchResponse, decode_fetch_request, encode_fetch_response

from isthmus_broker.core.replica.consumer_reader import (
    CONSUMERS,
    READ_COMMITTED,
    ReadResult,
    ReadRules,
    read_partitions,
)
from isthmus_broker.core.replica.fetch_session import SessionFetch
from isthmus_broker.core.replica.follower_session import FollowerSession
from isthmus_broker.core.replica.replica_reader import ReplicaReader
from isthmus_broker.core.replica.waiting import Waiting, Watched
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

LEADER_SINCE: Final = 16
"""The first version whose responses name the current leader."""
RACK_SINCE: Final = 11
"""The first version whose consumers may read from followers."""


def handle(node: Services, request: Request) -> None:
    """Read now, and respond or wait."""
    version = request.header.api_version
    body = decode_fetch_request(version, request.frame, request.header.size)
    if not 0 <= body.isolation_level <= READ_COMMITTED:
        _respond(request, FetchResponse((), ErrorCode.unknown_server_error.value))
        return
    fetching = node.sessions.begin(body, by_id=version >= TOPIC_ID_SINCE, now_ms=node.clocks.monotonic())
    if isinstance(fetching, ErrorCode):
        _respond(request, FetchResponse((), fetching.value))
        return
    _Fetch(node, request, body, fetching).serve()


def _respond(request: Request, response: FetchResponse) -> None:
    request.reply(*encode_fetch_response(request.header.api_version, response))


class _Fetch:
    """One fetch in progress."""

    __slots__ = ("_body", "_fetching", "_followed", "_node", "_replica", "_request", "_rules")

    def __init__(self, node: Services, request: Request, body: FetchRequest, fetching: SessionFetch) -> None:
        self._node = node
        self._request = request
        self._body = body
        self._fetching = fetching
        version = request.header.api_version
        self._rules = rules = (
            self._consumer_rules(version) if body.replica_id in CONSUMERS else self._replica_rules(version)
        )
        self._replica: ReplicaReader | None = None
        self._followed: FollowerSession | None = None
        if not rules.is_consumer:
            replicas = node.replicas
            self._replica = ReplicaReader(
                rules, body.replica_epoch, replicas.throttles, replicas.read_log, fetching.is_incremental
            )
            self._followed = replicas.followers.session_of(body.replica_id, request.header.client_id, fetching.session)

    def _consumer_rules(self, version: int) -> ReadRules:
        body, node = self._body, self._node
        return ReadRules(
            min(body.max_bytes, node.config.settings.fetch_max_bytes),
            body.isolation_level == READ_COMMITTED,
            body.replica_id,
            names_leader=version >= LEADER_SINCE,
            leader_only=version < RACK_SINCE,
            prefer=node.replicas.preference(body.rack_id, self._request.connection.listener_name).choose,
            find_leader=node.replicas.find_leader,
        )

    def _replica_rules(self, version: int) -> ReadRules:
        return ReadRules(
            self._body.max_bytes,
            False,
            self._body.replica_id,
            names_leader=version >= LEADER_SINCE,
            find_leader=self._node.replicas.find_leader,
        )

    def serve(self) -> None:
        now = self._node.clocks.monotonic()
        if self._followed is not None:
            forgotten = [(topic, index) for topic, indexes in self._body.forgotten for index in indexes]
            self._followed.begin_fetch(self._body.topics, forgotten, now)
        result = self._read(is_new=True)
        if self._body.max_wait_ms <= 0 or not self._fetching.partitions or self._is_enough(result):
            self._reply(result)
            return
        waiting = Waiting(
            asyncio.get_running_loop(),
            [*self._watched(), *result.pending],
            self._body.max_wait_ms,
            self._read,
            self._is_enough,
            self._reply,
            appends_too=self._replica is not None,
            deserves_soon=_is_behind,
        )
        if self._replica is not None:
            node, body = self._node, self._body
            node.replicas.followers.wait(body.replica_id, self._request.header.client_id, waiting.cancel)
        if result.behind:
            waiting.wake()
        self._request.connection.on_abandoned = waiting.cancel

    def _watched(self) -> list[Watched]:
        if self._followed is not None:
            return [self._followed]
        partitions = (self._node.replicas.find(topic, part.partition) for topic, part in self._fetching.partitions)
        return [partition for partition in partitions if isinstance(partition, Partition)]

    def _read(self, *, is_new: bool = False) -> ReadResult:
        find, followed = self._node.replicas.find, self._followed
        if self._replica is None:
            return read_partitions(self._fetching.partitions, self._rules, find, self._node.replicas.read_log)
        partitions = self._fetching.partitions if followed is None else followed.marked()
        return self._replica.read(partitions, find, self._node.clocks.monotonic(), followed, is_new=is_new)

    def _is_enough(self, result: ReadResult) -> bool:
        return result.is_urgent or result.size >= self._body.min_bytes

    def _reply(self, result: ReadResult) -> None:
        session_id, topics = self._node.sessions.finish(self._fetching, result.responses, self._node.clocks.monotonic())
        self._count(result)
        if self._replica is not None:
            self._replica.record_watermarks_sent(result)
        response: Any = FetchResponse(topics, 0, session_id, node_endpoints=self._leaders(topics))
        _respond(self._request, response)

    def _count(self, result: ReadResult) -> None:
        if not result.size:
            return
        for topic, response in result.responses:
            if response.records:
                partition = self._node.replicas.find(topic, response.partition)
                if isinstance(partition, Partition):
                    size = sum(map(len, response.records))
                    if self._replica is None:
                        partition.bytes_out += size
                    else:
                        partition.replicated_out += size

    def _leaders(self, topics: Any) -> tuple[tuple[int, str, int, str | None], ...]:
        """The endpoints of the leaders that the response to a consumer names."""
        if self._replica is not None:
            return ()
        named = {
            response.current_leader[0] for _, responses in topics for response in responses if response.current_leader
        }
        return self._node.replicas.endpoints_of(sorted(named), self._request.connection.listener_name) if named else ()


def _is_behind(result: ReadResult) -> bool:
    return bool(result.behind)
