"""Partitions of a mirror topic on two nodes connected in memory: the source's batches on both, before and after promotion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.links.stop import Stop
from isthmus_broker.core.replica.mirror_progress import mirror_progress
from isthmus_broker.core.replica.mirror_source import MirrorRole
from isthmus_broker.edge.replication.partition import Partition
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_mirrored import PartitionAppend
from isthmus_wire.extensions.mirrors import MirrorState
from isthmus_wire.markers import ProducerId
from isthmus_wire.records import NewRecord, batches, build_batch, build_control_batch, header_at, iterate_records

from tests.clocks import at
from tests.edge.replication.nodes import (
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
from tests.edge.storage.logs import NOW, reopened

LINK = UUID(int=77)
COPYING = MirrorRole(LINK, "west", MirrorState.ACTIVE, None)
STOPPED = MirrorRole(LINK, "west", MirrorState.STOPPED, Stop(partitions=1, leader_epoch=14))


def from_source(base: int, *values: bytes, epoch: int = 2, **fields: Any) -> bytes:
    records = [NewRecord(b"k", value, NOW) for value in values]
    return build_batch(records, base_offset=base, leader_epoch=epoch, **fields)


def append(part: Partition, expected: int, records: bytes | None, **given: Any) -> ErrorCode:
    fields: dict[str, Any] = {
        "start_offset": -1,
        "source_leader_epoch": 2,
        "source_high_watermark": -1,
        "link_id": LINK,
        **given,
    }
    link_id = fields.pop("link_id")
    asked = PartitionAppend(partition=0, expected_end_offset=expected, records=records, **fields)
    refusal = part.append_mirrored(link_id, asked, MonotonicMs(NOW))
    return ErrorCode.none if refusal is None else refusal.error


def mirrored(directory: Path, node_id: int = 1, role: MirrorRole = COPYING, **config: Any) -> Partition:
    part = partition(directory, node_id, **config)
    part.mirror = role
    return part


def alone(directory: Path, role: MirrorRole = COPYING, **config: Any) -> Partition:
    part = mirrored(directory, role=role, **config)
    become(part, leadership(1, 4, (1,), replicas=(1,)))
    return part


def pair(directory: Path) -> tuple[Partition, Partition]:
    one, two = mirrored(directory, 1), mirrored(directory, 2)
    become(one, leadership(1, 4))
    become(two, leadership(1, 4))
    return one, two


def catch_up(leader: Partition, follower: Partition) -> None:
    for _ in range(6):
        fetch(leader, follower)
    assert stored(leader) == stored(follower)
    assert offsets(leader) == offsets(follower)


def epochs(part: Partition) -> Sequence[tuple[int, int]]:
    assert part.log is not None
    return part.log.epochs.entries


def test_batches_are_stored_unchanged_with_the_sources_epochs(tmp_path: Path) -> None:
    part = alone(tmp_path)
    data = from_source(0, b"a", b"b", compression=4) + from_source(7, b"c", epoch=3)
    assert append(part, 0, data) is ErrorCode.none
    assert stored(part) == data
    assert offsets(part) == (0, 8, 8)
    assert epochs(part) == [(2, 0), (3, 7)]


def test_a_follower_has_the_same_bytes_and_epochs(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    data = from_source(0, b"a") + from_source(5, b"b", epoch=4)
    assert append(one, 0, data) is ErrorCode.none
    catch_up(one, two)
    assert stored(two) == data
    assert epochs(two) == epochs(one) == [(2, 0), (4, 5)]
    assert offsets(two) == (0, 6, 6)


def test_an_append_names_the_log_end(tmp_path: Path) -> None:
    part = alone(tmp_path)
    assert append(part, 1, from_source(1, b"a")) is ErrorCode.offset_out_of_range
    assert append(part, 0, from_source(0, b"a")) is ErrorCode.none
    assert append(part, 0, from_source(0, b"a")) is ErrorCode.offset_out_of_range
    assert append(part, 1, from_source(0, b"a")) is ErrorCode.invalid_record
    assert offsets(part) == (0, 1, 1)


@pytest.mark.parametrize(
    ("role", "given", "error"),
    [
        (None, {}, ErrorCode.policy_violation),
        (STOPPED, {}, ErrorCode.policy_violation),
        (MirrorRole(LINK, "west", MirrorState.PAUSED, None), {}, ErrorCode.policy_violation),
        (MirrorRole(LINK, "west", MirrorState.LINK_PAUSED, None), {}, ErrorCode.policy_violation),
        (MirrorRole(LINK, "west", MirrorState.FAILED, None), {}, ErrorCode.policy_violation),
        (MirrorRole(LINK, "west", MirrorState.PENDING_STOPPED, None), {}, ErrorCode.none),
        (MirrorRole(LINK, "west", MirrorState.SOURCE_UNAVAILABLE, None), {}, ErrorCode.none),
        (COPYING, {"link_id": UUID(int=78)}, ErrorCode.policy_violation),
        (COPYING, {"source_leader_epoch": 5}, ErrorCode.fenced_leader_epoch),
    ],
)
def test_which_appends_are_accepted(
    tmp_path: Path, role: MirrorRole | None, given: dict[str, Any], error: ErrorCode
) -> None:
    part = alone(tmp_path)
    part.mirror = role
    assert append(part, 0, from_source(0, b"a"), **given) is error


def test_only_the_leader_appends_and_only_while_enough_are_in_sync(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    assert append(two, 0, from_source(0, b"a")) is ErrorCode.not_leader_or_follower
    become(one, leadership(1, 5, (1,)), min_isr=2)
    assert append(one, 0, from_source(0, b"a")) is ErrorCode.not_enough_replicas
    assert offsets(one) == (0, 0, 0)


def test_an_empty_log_begins_where_the_source_does_and_so_does_its_follower(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    assert append(one, 0, from_source(40, b"a"), start_offset=40) is ErrorCode.none
    assert append(one, 41, from_source(41, b"b"), start_offset=90) is ErrorCode.none  # no longer empty
    catch_up(one, two)
    assert offsets(two) == (40, 42, 42)
    assert epochs(two) == [(2, 40)]


def test_a_copy_that_begins_inside_a_batch_has_the_whole_batch(tmp_path: Path) -> None:
    part = alone(tmp_path)
    data = from_source(40, b"a", b"b", b"c")
    assert append(part, 0, data, start_offset=41) is ErrorCode.none
    assert part.log is not None
    assert (offsets(part), part.log.read(41, 1_000, 43, at_least_one=True).records()) == ((41, 43, 43), data)


def test_a_new_leader_continues_the_sources_history(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    append(one, 0, from_source(0, b"a"))
    catch_up(one, two)
    append(one, 1, from_source(1, b"b") + from_source(2, b"c"))
    become(two, leadership(2, 5))
    become(one, leadership(2, 5))
    assert append(two, 1, from_source(1, b"b")) is ErrorCode.none
    for _ in range(3):
        fetch_as_one(two, one)
    assert stored(one) == stored(two)
    assert stored(two) == from_source(0, b"a") + from_source(1, b"b")
    assert epochs(one) == epochs(two) == [(2, 0)]


def test_clients_write_only_after_the_promotion_and_then_in_a_new_epoch(tmp_path: Path) -> None:
    part = alone(tmp_path)
    append(part, 0, from_source(0, b"a"))
    refused = part.produce(batch(b"x"), 12, -1, at(NOW))
    assert ErrorCode(refused.error_code) is ErrorCode.policy_violation
    assert refused.error_message == "Topic t is a mirror topic of link 'west': it is read-only until it is promoted."
    part.mirror = STOPPED
    become(part, leadership(1, 14, (1,), replicas=(1,)))
    produce(part, b"x")
    assert epochs(part) == [(2, 0), (14, 1)]
    assert offsets(part) == (0, 2, 2)


def open_transaction(base: int, producer: int) -> bytes:
    return from_source(base, b"t", attributes=0x10, producer_id=producer, producer_epoch=3, base_sequence=0)


def test_transactions_that_the_source_left_open_are_aborted_once(tmp_path: Path) -> None:
    part = alone(tmp_path)
    committed = build_control_batch(
        1, bytes(6), timestamp=NOW, base_offset=2, leader_epoch=2, producer_id=8, producer_epoch=3
    )
    assert append(part, 0, open_transaction(0, 7) + open_transaction(1, 8) + committed) is ErrorCode.none
    assert part.log is not None
    assert part.log.last_stable_offset == 0
    part.mirror = STOPPED
    become(part, leadership(1, 14, (1,), replicas=(1,)))
    assert part.log.last_stable_offset == part.log.end_offset == 4
    assert [(row.producer_id, row.first_offset) for row in part.log.aborted_between(0, 4)] == [(7, 0)]
    *_, (position, marker) = batches(stored(part))
    assert (marker.producer_id, marker.producer_epoch, marker.leader_epoch, marker.is_control) == (7, 3, 14, True)
    (record,) = iterate_records(stored(part), position)
    assert (record.key, record.value) == (bytes(4), bytes(6))
    become(part, leadership(1, 15, (1,), replicas=(1,)))
    assert part.log.end_offset == 4


def test_a_new_leader_aborts_transactions_that_a_lost_leader_did_not(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    append(one, 0, open_transaction(0, 7))
    catch_up(one, two)
    two.mirror = STOPPED
    become(two, leadership(2, 15, (2,)))
    assert two.log is not None
    assert two.log.end_offset == 2
    assert not two.log.producers.opened_before(2)


def append_transaction(part: Partition, producer_id: int) -> None:
    """Append the first batch of a transaction that was verified, as a coordinator of this node does."""
    assert part.log is not None
    batch = bytearray(open_transaction(0, producer_id))
    header = header_at(batch)
    producer = ProducerId(header.producer_id, header.producer_epoch)
    number = part.log.producers.begin_verification(producer, header.base_sequence, NOW, raises_epoch=False)
    assert isinstance(number, int)
    assert isinstance(part.append(batch, MonotonicMs(NOW), verification=number), int)


def test_later_transactions_and_later_partitions_are_not_aborted(tmp_path: Path) -> None:
    part = alone(tmp_path, role=STOPPED)
    become(part, leadership(1, 14, (1,), replicas=(1,)))
    append_transaction(part, 9)
    become(part, leadership(1, 15, (1,), replicas=(1,)))
    assert part.log is not None
    assert [producer.producer_id for producer in part.log.producers.opened_before(99)] == [9]
    late = alone(tmp_path / "late", role=MirrorRole(LINK, "west", MirrorState.STOPPED, Stop(0, 14)))
    append_transaction(late, 9)
    become(late, leadership(1, 20, (1,), replicas=(1,)))
    assert late.log is not None
    assert late.log.end_offset == 1


def test_a_start_after_a_crash_keeps_gaps_markers_and_epochs(tmp_path: Path) -> None:
    part = alone(tmp_path, is_mirrored=True)
    emptied = bytearray(build_control_batch(0, bytes(6), timestamp=NOW, base_offset=30, leader_epoch=2, producer_id=5))
    data = from_source(3, b"a") + open_transaction(20, 7) + bytes(emptied)
    append(part, 0, data)
    assert part.log is not None
    log, recovered = reopened(part.log, clean=False)
    assert (recovered.bytes_truncated, log.end_offset, log.epochs.entries) == (0, 31, [(2, 3)])
    assert log.producers.first_open_offset() == 20


def test_a_leader_reports_the_progress_of_the_copy(tmp_path: Path) -> None:
    part = alone(tmp_path)
    unknown = mirror_progress(part, 0, MonotonicMs(NOW))
    assert (unknown.source_high_watermark, unknown.last_heard_lag_ms, unknown.caught_up_lag_ms) == (-1, -1, -1)
    append(part, 0, from_source(0, b"a"), source_high_watermark=3)
    behind = mirror_progress(part, 0, MonotonicMs(NOW + 5))
    assert (behind.log_end_offset, behind.source_high_watermark, behind.last_epoch) == (1, 3, 2)
    assert (behind.last_heard_lag_ms, behind.caught_up_lag_ms, behind.leader_epoch) == (5, -1, 4)
    append(part, 1, from_source(1, b"b", b"c"), source_high_watermark=3)
    assert append(part, 3, None, source_high_watermark=3) is ErrorCode.none
    level = mirror_progress(part, 0, MonotonicMs(NOW + 7))
    assert (level.high_watermark, level.last_heard_lag_ms, level.caught_up_lag_ms) == (3, 7, 7)
    part.mirror = None
    assert mirror_progress(part, 0, MonotonicMs(NOW)).error_code is ErrorCode.invalid_request
    assert (
        mirror_progress(ErrorCode.unknown_topic_or_partition, 0, MonotonicMs(NOW)).error_code
        is ErrorCode.unknown_topic_or_partition
    )
