"""Fetch, versions 4 to 18: read batches from many partitions, waiting for min_bytes up to max_wait.

Sessions (KIP-227) since 7, leader epochs since 9, diverging epochs since 12, topic ids since 13. Records leave the log file only when
the socket takes them.
"""

from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import TOPIC_ID_SINCE, FetchRequest, FetchResponse, decode_fetch_request, encode_fetch_response

from isthmus_broker.core.replica.fetch_session import Fetching
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.clock import now_ms
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.replica.partition import Partition
from isthmus_broker.edge.replica.reader import (
    CONSUMERS,
    READ_COMMITTED,
    ReadResult,
    ReadRules,
    WaitingFetch,
    read_partitions,
)
from isthmus_broker.edge.services import Services

LEADER_SINCE: Final = 16
"""The first version that tells a reader who leads now."""


@handles(ApiKey.FETCH)
def fetch(node: Services, request: Request) -> None:
    """Read now, and answer or wait."""
    version = request.header.api_version
    asked = decode_fetch_request(version, request.frame, request.header.size)
    if not 0 <= asked.isolation_level <= READ_COMMITTED:
        _respond(request, FetchResponse((), ErrorCode.unknown_server_error.value))
        return
    fetching = node.sessions.begin(asked, by_id=version >= TOPIC_ID_SINCE, now_ms=now_ms())
    if isinstance(fetching, ErrorCode):
        _respond(request, FetchResponse((), fetching.value))
        return
    _Fetch(node, request, asked, fetching).serve()


def _respond(request: Request, response: FetchResponse) -> None:
    request.reply(*encode_fetch_response(request.header.api_version, response))


class _Fetch:
    """One fetch under way."""

    __slots__ = ("_asked", "_fetching", "_node", "_request", "_rules")

    def __init__(self, node: Services, request: Request, asked: FetchRequest, fetching: Fetching) -> None:
        self._node = node
        self._request = request
        self._asked = asked
        self._fetching = fetching
        is_consumer = asked.replica_id in CONSUMERS
        limit = min(asked.max_bytes, node.config.settings.fetch_max_bytes) if is_consumer else asked.max_bytes
        committed = is_consumer and asked.isolation_level == READ_COMMITTED
        names_leader = request.header.api_version >= LEADER_SINCE
        self._rules = ReadRules(limit, committed, asked.replica_id, names_leader)

    def serve(self) -> None:
        result = self._read()
        if self._asked.max_wait_ms <= 0 or not self._fetching.wanted or self._is_enough(result):
            self._answer(result)
            return
        partitions = [
            found
            for topic, part in self._fetching.wanted
            if isinstance(found := self._node.replicas.find(topic, part.partition), Partition)
        ]
        waiting = WaitingFetch(partitions, self._asked.max_wait_ms, self._read, self._is_enough, self._answer)
        self._request.connection.on_abandoned = waiting.cancel

    def _read(self) -> ReadResult:
        return read_partitions(self._fetching.wanted, self._rules, self._node.replicas.find)

    def _is_enough(self, result: ReadResult) -> bool:
        return result.has_error or result.size >= self._asked.min_bytes

    def _answer(self, result: ReadResult) -> None:
        session_id, topics = self._node.sessions.finish(self._fetching, result.answers, now_ms())
        response: Any = FetchResponse(topics, 0, session_id)
        _respond(self._request, response)
