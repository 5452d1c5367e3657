"""A follower's log becomes its leader's, whatever it was before."""

from pathlib import Path

import pytest
from isthmus_broker.core.replica.follower import Append, RestartAt, Truncate
from isthmus_broker.edge.replica.partition import Partition
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.fetch import FetchPartition

from tests.edge.disk.logs import NOW
from tests.edge.replica.nodes import (
    ask,
    batch,
    become,
    fetch,
    fetch_as_one,
    leadership,
    offsets,
    partition,
    produce,
    stored,
)


def pair(directory: Path) -> tuple[Partition, Partition]:
    one, two = partition(directory, 1), partition(directory, 2)
    for part in (one, two):
        become(part, leadership(1, 4))
    return one, two


def catch_up(leader: Partition, follower: Partition) -> None:
    for _ in range(10):
        fetch(leader, follower)
    assert stored(leader) == stored(follower)
    assert offsets(leader) == offsets(follower)


def test_batches_arrive_as_they_are_and_are_committed_by_the_next_fetch(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a", b"b")
    produce(one, b"c")
    assert offsets(one) == (0, 0, 3)
    fetch(one, two)
    assert (offsets(one), offsets(two)) == ((0, 0, 3), (0, 0, 3))
    fetch(one, two)
    assert (offsets(one), offsets(two)) == ((0, 3, 3), (0, 3, 3))
    assert stored(one) == stored(two)


def test_a_former_leader_loses_what_it_never_committed(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a")
    catch_up(one, two)
    produce(one, b"lost", b"lost")
    become(two, leadership(2, 5))
    become(one, leadership(2, 5))
    produce(two, b"kept")
    cut: list[int] = []
    one.on_truncated = lambda _part, end: cut.append(end)
    assert fetch_as_one(two, one) == Truncate(1)
    assert cut == [1]
    for _ in range(3):
        fetch_as_one(two, one)
    assert stored(one) == stored(two)
    assert one.log is not None
    assert one.log.epochs.entries == [(4, 0), (5, 1)]


def test_a_former_leader_that_wrote_nothing_forgets_its_epoch(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a")
    catch_up(one, two)
    become(two, leadership(2, 5))  # noted at the end of its log, nothing written
    become(two, leadership(1, 6))
    become(one, leadership(1, 6))
    produce(one, b"b")
    catch_up(one, two)
    assert two.log is not None
    assert two.log.epochs.entries == [(4, 0), (6, 1)]


def test_deleted_records_are_deleted_on_the_follower(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a", b"b")
    produce(one, b"c")
    catch_up(one, two)
    assert one.log is not None
    one.log.raise_start(2)
    fetch(one, two)
    assert offsets(two) == (2, 3, 3)
    assert one.leader is not None
    assert one.leader.low_watermark(one.log) == 0
    fetch(one, two)
    assert one.leader.low_watermark(one.log) == 2


def test_a_follower_behind_the_log_start_begins_anew(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a")
    catch_up(one, two)
    become(one, leadership(1, 5, (1,)), now_ms=NOW + 60_000)  # the follower has long been silent
    become(two, leadership(1, 5, (1,)))
    for value in (b"b", b"c"):
        produce(one, value)
    assert one.log is not None
    one.log.raise_start(2)
    assert fetch(one, two) == RestartAt(2)
    fetch(one, two)
    assert offsets(two) == (2, 3, 3)


def test_nothing_of_a_damaged_answer_is_kept(tmp_path: Path) -> None:
    _, two = pair(tmp_path)
    good, bad = batch(b"a"), batch(b"b", base_offset=1)
    bad[-1] ^= 0xFF
    with pytest.raises(CorruptBatch):
        two.follow(Append(0, 0), [bytes(good) + bytes(bad)], NOW)
    with pytest.raises(CorruptBatch):
        two.follow(Append(0, 0), [bytes(batch(b"a", base_offset=5)) + bytes(batch(b"b", base_offset=5))], NOW)
    assert offsets(two) == (0, 0, 0)


def test_batches_of_an_epoch_after_the_leaders_are_left_for_its_successor(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    produce(one, b"a")
    old = stored(one)
    become(one, leadership(1, 5))
    produce(one, b"b")
    two.follow(Append(0, 0), [stored(one)], NOW)
    assert stored(two) == old


def test_what_the_leader_answers_replicas_it_does_not_know_as_such(tmp_path: Path) -> None:
    one, _ = pair(tmp_path)
    wanted = FetchPartition(0, 0, 1000, current_leader_epoch=4)
    become(one, leadership(1, 4, (1,), replicas=(1, 3), partition_epoch=9))
    assert ask(one, wanted).error_code == ErrorCode.unknown_leader_epoch.value
    become(one, leadership(3, 5, (3,), replicas=(1, 3)))
    assert ask(one, wanted).error_code == ErrorCode.fenced_leader_epoch.value
    assert ask(one, wanted._replace(current_leader_epoch=5)).error_code == ErrorCode.not_leader_or_follower.value
