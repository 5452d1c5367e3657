"""Produce with acks=all, ISR proposals, throttles, and the choice of replicas for consumers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.near_replica import NearReplica
from isthmus_broker.core.metadata.schema import BrokerEndpoint
from isthmus_broker.core.replica.consumer_reader import ReadRules, read_partitions
from isthmus_broker.core.replica.replica_reader import ReplicaReader
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.replication.acks_all import Key, wait_for_commit
from isthmus_broker.edge.replication.isr_changes import IsrChanges
from isthmus_broker.edge.replication.partition import Partition
from isthmus_client.clock import monotonic_ms
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchPartition
from isthmus_wire.produce import ProduceResult

from tests.edge.replication.nodes import (
    EPOCHS,
    READ_LOG,
    RULES,
    Reported,
    become,
    fetch,
    fetch_from,
    leadership,
    node_config,
    offsets,
    partition,
    produce,
)
from tests.edge.storage.logs import NOW, config


def led(directory: Path, isr: tuple[int, ...] = (1, 2), *, min_isr: int = 1, **config: Any) -> Partition:
    made = partition(directory, 1, **config)
    become(made, leadership(1, 4, isr), min_isr=min_isr)
    return made


def say(part: Partition, offset: int) -> None:
    """Let node 2 fetch from `offset`."""
    part.replica_fetched(2, EPOCHS[2], offset, 0, MonotonicMs(NOW))


# -- acks=all ----------------------------------------------------------------------------------------------------------------


def outcome(part: Partition, then: Callable[[], None], wait_ms: int = 600_000) -> ProduceResult:
    """The response to a producer if `then` runs while it waits."""

    async def run() -> ProduceResult:
        produce(part, b"a", b"b")
        replied = asyncio.Event()
        results = [ProduceResult(0, 0, 0)]
        request: Any = SimpleNamespace(defer=lambda _on_abandoned: None)
        uncommitted: dict[Key, Uncommitted] = {("t", 0): Uncommitted.now(part)}
        wait_for_commit(request, wait_ms, [("t", results)], uncommitted, replied.set)
        then()
        async with asyncio.timeout(60):
            await replied.wait()
        return results[0]

    return asyncio.run(run())


def test_a_produce_succeeds_when_every_in_sync_replica_has_the_records(tmp_path: Path) -> None:
    part = led(tmp_path)
    heard = outcome(part, lambda: say(part, 2))
    assert (heard.error_code, heard.base_offset) == (0, 0)


def test_a_produce_fails_when_too_few_replicas_were_in_sync_at_the_commit(tmp_path: Path) -> None:
    part = led(tmp_path, min_isr=2)

    def shrink() -> None:
        say(part, 2)
        become(part, leadership(1, 4, (1,), partition_epoch=1), min_isr=2)

    assert outcome(part, shrink).error_code == ErrorCode.not_enough_replicas_after_append.value


def test_a_produce_that_fails_names_the_new_leader(tmp_path: Path) -> None:
    part = led(tmp_path)
    heard = outcome(part, lambda: become(part, leadership(2, 5)))
    assert (heard.error_code, heard.current_leader) == (ErrorCode.not_leader_or_follower.value, (2, 5))


def test_a_leader_that_returns_after_another_fails_earlier_produces(tmp_path: Path) -> None:
    part = led(tmp_path)

    def lose_and_win() -> None:
        become(part, leadership(2, 5))
        become(part, leadership(1, 6, (1,)))

    assert outcome(part, lose_and_win).error_code == ErrorCode.not_leader_or_follower.value


def test_a_leader_that_stays_in_the_next_epoch_completes_earlier_produces(tmp_path: Path) -> None:
    part = led(tmp_path)
    assert outcome(part, lambda: become(part, leadership(1, 5, (1,), replicas=(1,)))).error_code == 0


def test_a_produce_times_out(tmp_path: Path) -> None:
    assert outcome(led(tmp_path), lambda: None, wait_ms=1).error_code == ErrorCode.request_timed_out.value


# -- the controller ----------------------------------------------------------------------------------------------------------


LOST = object()
"""Before a response: an earlier attempt had none."""


class Controller:
    """Returns the given responses one after another, or raises them if they are exceptions."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []
        self.done = asyncio.Event()

    async def send(self, request: Any, *, on_lost: Callable[[], None]) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if answer is LOST:
            on_lost()
            answer = self.answers.pop(0)
        if not self.answers:
            self.done.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def decided(part: Partition, error: ErrorCode = ErrorCode.none, isr: tuple[int, ...] = (), epoch: int = 1) -> Any:
    fields = {"leader_epoch": 4, "isr": isr, "partition_epoch": epoch, "leader_recovery_state": 0}
    answer = SimpleNamespace(partition_index=0, error_code=error, **fields)
    topic = SimpleNamespace(topic_id=part.topic_id, partitions=(answer,))
    return SimpleNamespace(error_code=ErrorCode.none, topics=(topic,))


def propose(part: Partition, reported: Reported, controller: Controller) -> list[Any]:
    """Let node 2 catch up outside the ISR, and the controller send all its responses; returns the requests it received."""

    async def run() -> None:
        changes = IsrChanges(controller, 1, lambda: EPOCHS[1], monotonic_ms)
        reported.propose = changes.propose
        say(part, 1)
        async with asyncio.timeout(60):
            await controller.done.wait()
        changes.stop()

    asyncio.run(run())
    return controller.requests


def test_an_isr_applies_when_the_controller_has_decided(tmp_path: Path) -> None:
    reported = Reported()
    part = led(tmp_path, (1,), reported=reported)
    produce(part, b"a")
    (asked,) = propose(part, reported, Controller(decided(part, isr=(1, 2))))
    (requested,) = asked.topics[0].partitions
    assert [(state.broker_id, state.broker_epoch) for state in requested.new_isr_with_epochs] == [(1, 11), (2, 12)]
    assert (asked.broker_id, asked.broker_epoch, requested.leader_epoch, requested.partition_epoch) == (1, 11, 4, 0)
    assert part.leadership.isr == (1, 2)
    assert part.leader is not None
    assert part.leader.in_flight is None


def test_a_refusal_after_a_lost_copy_is_no_decision(tmp_path: Path) -> None:
    reported = Reported()
    part = led(tmp_path, (1,), reported=reported)
    produce(part, b"a")
    refused = decided(part, ErrorCode.ineligible_replica)
    requests = propose(part, reported, Controller(LOST, refused, refused, decided(part, isr=(1, 2))))
    assert len(requests) == 3
    assert part.leadership.isr == (1, 2)


def test_a_proposal_is_retried_until_it_is_decided(tmp_path: Path) -> None:
    reported = Reported()
    part = led(tmp_path, (1,), reported=reported)
    produce(part, b"a")
    stale = SimpleNamespace(error_code=ErrorCode.stale_broker_epoch, topics=())
    timed_out = decided(part, ErrorCode.request_timed_out)
    granted = decided(part, isr=(1, 2))
    asked = propose(part, reported, Controller(ControllerUnreachable("no"), stale, timed_out, granted))
    assert len(asked) == 4
    assert part.leadership.isr == (1, 2)


def test_a_refused_proposal_is_not_retried(tmp_path: Path) -> None:
    reported = Reported()
    part = led(tmp_path, (1,), reported=reported)
    produce(part, b"a")
    assert len(propose(part, reported, Controller(decided(part, ErrorCode.invalid_update_version)))) == 1
    assert part.leadership.isr == (1,)


# -- reading -----------------------------------------------------------------------------------------------------------------


def read(part: Partition, offset: int, **rules: Any) -> Any:
    """Fetch as a consumer."""
    asked = ReadRules(1_000_000, read_committed=False, replica_id=-1, **rules)
    ((_, answer),) = read_partitions(
        [("t", FetchPartition(0, offset, 1_000))], asked, lambda _t, _i: part, READ_LOG
    ).responses
    return answer


def test_consumers_of_a_follower_read_up_to_its_high_watermark(tmp_path: Path) -> None:
    one, two = led(tmp_path), partition(tmp_path, 2)
    become(two, leadership(1, 4))
    produce(one, b"a")
    fetch(one, two)
    assert read(two, 0).error_code == ErrorCode.not_leader_or_follower.value, (
        "a consumer that does not support fetching from followers"
    )
    assert read(two, 0, leader_only=False).records == ()
    fetch(one, two)
    assert sum(map(len, read(two, 0, leader_only=False).records)) > 0
    assert read(two, 2, leader_only=False).error_code == ErrorCode.offset_out_of_range.value


def test_a_changed_high_watermark_is_sent_soon_but_not_at_once_and_only_once(tmp_path: Path) -> None:
    part = led(tmp_path)
    produce(part, b"a")
    reader = ReplicaReader(RULES, EPOCHS[2], Throttles(node_config()), READ_LOG, is_incremental=True)
    requested = [("t", FetchPartition(0, 1, 1_000, current_leader_epoch=4))]
    first = reader.read(requested, lambda _t, _i: part, MonotonicMs(NOW), is_new=True)
    assert (first.is_urgent, first.behind) == (False, [part])
    assert [answer.high_watermark for _, answer in first.responses] == [1]
    reader.record_watermarks_sent(first)
    second = reader.read(requested, lambda _t, _i: part, MonotonicMs(NOW), is_new=True)
    assert (second.responses, second.behind) == ([], [])


@pytest.mark.parametrize(("isr", "records"), [((1,), False), ((1, 2), True)])
def test_a_throttle_holds_back_replicas_that_are_not_in_sync(
    tmp_path: Path, isr: tuple[int, ...], records: bool
) -> None:
    part = led(tmp_path, isr, leader_replication_throttled_replicas=("0:1",))
    produce(part, b"x" * 1_000)
    throttles = Throttles(node_config(leader_replication_throttled_rate="10"))
    requested = FetchPartition(0, 0, 1_000_000, current_leader_epoch=4)
    assert fetch_from(part, requested, throttles=throttles).records, (
        "the first response is sent, then the rate is exceeded"
    )
    assert bool(fetch_from(part, requested, throttles=throttles).records) is records


def cluster(**racks: str) -> ClusterImage:
    brokers: Any = {
        number: SimpleNamespace(
            rack=rack,
            fenced=False,
            endpoints=(BrokerEndpoint(name="PLAINTEXT", host="h", port=number, security_protocol=0),),
        )
        for number, rack in enumerate(racks.values(), 1)
    }
    return ClusterImage(brokers=brokers)


def test_the_leader_names_the_near_replica_that_has_the_offset(tmp_path: Path) -> None:
    part = led(tmp_path)
    produce(part, b"a")
    for _ in range(2):
        fetch_from(part, FetchPartition(0, 1, 1_000, current_leader_epoch=4, log_start_offset=0))
    image = cluster(one="us", two="eu/a")
    near = NearReplica(image, True, "eu/b", "PLAINTEXT")
    answer = read(part, 0, prefer=near.choose)
    assert (answer.preferred_read_replica, answer.records, answer.high_watermark) == (2, (), 1)
    assert near._replace(is_enabled=False).choose(part, 0) is None
    assert near._replace(listener="OTHER").choose(part, 0) is None
    assert near._replace(rack="us").choose(part, 0) is None
    produce(part, b"b")
    assert near.choose(part, 1) == 2
    assert near.choose(part, 2) is None, "the replica has not received this high watermark yet"


def test_changed_topic_settings_advance_the_high_watermark(tmp_path: Path) -> None:
    part = led(tmp_path, (1,), min_isr=2)
    produce(part, b"a")
    assert offsets(part) == (0, 0, 1)
    assert part.leader is not None
    part.update_isr_rules(part.leader.rules._replace(min_isr=1), MonotonicMs(NOW))
    assert offsets(part) == (0, 1, 1)


def test_throttled_replicas_are_those_that_the_topic_names() -> None:
    settings = config(follower_replication_throttled_replicas=("*",))
    part: Any = SimpleNamespace(log=SimpleNamespace(config=settings), index=0, leadership=SimpleNamespace(isr=()))
    throttles = Throttles(node_config(follower_replication_throttled_rate="1"))
    assert not throttles.holds_back_fetcher(part, MonotonicMs(NOW))
    throttles.record_fetched(1_000_000, MonotonicMs(NOW))
    assert throttles.holds_back_fetcher(part, MonotonicMs(NOW))
    assert not throttles.is_leader_throttled(part)
