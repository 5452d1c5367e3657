"""Produce requests with acks=all: the response is sent when every in-sync replica has the records."""

import asyncio
from collections.abc import Callable, Mapping

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.produce import ProduceResult

from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.transport.connection import Request

Key = tuple[Topic, int]
Outcomes = dict[Key, ErrorCode]


def wait_for_commit(
    request: Request,
    timeout_ms: int,
    topics: list[tuple[Topic, list[ProduceResult]]],
    uncommitted: Mapping[Key, Uncommitted],
    reply: Callable[[], None],
) -> None:
    """Complete the results and respond when every append is committed or has failed, or at the timeout."""
    settled: Outcomes = {}

    def check() -> Outcomes:
        for key, one in uncommitted.items():
            if key not in settled and (outcome := one.outcome()) is not None:
                settled[key] = outcome
        return settled

    def is_complete(outcomes: Outcomes) -> bool:
        return len(outcomes) == len(uncommitted)

    def respond(outcomes: Outcomes) -> None:
        for topic, results in topics:
            for number, result in enumerate(results):
                key = (topic, result.partition)
                if key in uncommitted:
                    error = outcomes.get(key, ErrorCode.request_timed_out)
                    moved = error is ErrorCode.not_leader_or_follower
                    leader = uncommitted[key].replica.current_leader if moved else None
                    results[number] = result._replace(error_code=error.value, current_leader=leader)
        reply()

    replicas = [one.replica for one in uncommitted.values()]
    waiting = Waiting(asyncio.get_running_loop(), replicas, timeout_ms, check, is_complete, respond)
    request.defer(waiting.cancel)
