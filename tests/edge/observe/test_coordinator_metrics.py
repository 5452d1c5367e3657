"""The metrics of coordinators, and of open transactions."""

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.edge.coordinators.counts import (
    GroupCounts,
    LoadTime,
    LoadTimes,
    TransactionCounts,
    Verifications,
)
from isthmus_broker.edge.observe.coordinator_metrics import group_metrics, transaction_metrics
from isthmus_broker.edge.observe.metrics import producer_metrics
from isthmus_broker.edge.replication.partition import Partition
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import MonotonicMs, WallMs
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch
from prometheus_client.core import Metric

from tests.edge.replication.nodes import EPOCHS, Reported
from tests.edge.storage.logs import new_log

GROUPS = "kafka_server_group_coordinator_metrics"
TRANSACTIONS = "kafka_server_transaction_coordinator_metrics"
VERIFICATIONS = "kafka_server_addpartitionstotxnmanager"
LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"


def samples(metrics: Iterable[Metric]) -> dict[str, float]:
    return {
        ",".join([sample.name, *sample.labels.values()]): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def test_states_waiting_markers_refused_transitions_loads_and_verifications_are_counted() -> None:
    counts = TransactionCounts({"Ongoing": 2, "Empty": 1}, 3, 4, LoadTime(9, 4.5), Verifications(7, 35, 2))
    assert samples(transaction_metrics(counts)) == {
        "isthmus_transactional_ids,Empty": 1,
        "isthmus_transactional_ids,Ongoing": 2,
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": 4,
        "isthmus_illegal_transaction_transitions_total": 3,
        f"{TRANSACTIONS}_partition_load_time_max": 9,
        f"{TRANSACTIONS}_partition_load_time_avg": 4.5,
        f"{VERIFICATIONS}_verificationfailurerate_total": 2,
        f"{VERIFICATIONS}_verificationtimems_count": 7,
        f"{VERIFICATIONS}_verificationtimems_sum": 35,
    }


def test_groups_are_counted_by_protocol_and_state() -> None:
    by_state = {
        ("streams", "NotReady"): 2,
        ("streams", "Stable"): 1,
        ("consumer", "Assigning"): 4,
        ("classic", "Empty"): 8,
    }
    counts = GroupCounts(by_state, {"streams": 5, "classic": 6}, {"active": 3, "loading": 1}, LoadTime(2, 1.0))
    found = samples(group_metrics(counts))
    assert {name: value for name, value in found.items() if value} == {
        f"{GROUPS}_partition_load_time_max": 2,
        f"{GROUPS}_partition_load_time_avg": 1,
        f"{GROUPS}_num_partitions,active": 3,
        f"{GROUPS}_num_partitions,loading": 1,
        f"{GROUPS}_group_count,streams": 3,
        f"{GROUPS}_group_count,consumer": 4,
        f"{GROUPS}_group_count,classic": 8,
        f"{GROUPS}_streams_group_count,NotReady": 2,
        f"{GROUPS}_streams_group_count,Stable": 1,
        f"{GROUPS}_consumer_group_count,Assigning": 4,
        "kafka_coordinator_group_groupmetadatamanager_numgroups": 8,
        "kafka_coordinator_group_groupmetadatamanager_numgroupsempty": 8,
        f"{GROUPS}_streams_group_rebalance_count_total": 5,
        f"{GROUPS}_group_completed_rebalance_count_total": 6,
    }
    assert f"{GROUPS}_streams_group_count,Dead" in found, "states without a group have 0"


def test_the_time_of_no_load_is_not_zero() -> None:
    found = samples(
        [
            *group_metrics(GroupCounts({}, {}, {}, None)),
            *transaction_metrics(TransactionCounts({}, 0, 0, None, Verifications())),
        ]
    )
    assert not [name for name in found if "load_time" in name]


def test_loads_are_remembered_for_30_seconds() -> None:
    loads = LoadTimes()
    loads.record(MonotonicMs(1_000), MonotonicMs(1_040))
    loads.record(MonotonicMs(20_000), MonotonicMs(20_010))
    assert loads.recent(MonotonicMs(31_040)) == LoadTime(40, 25.0)
    assert loads.recent(MonotonicMs(31_041)) == LoadTime(10, 10.0)
    assert loads.recent(MonotonicMs(60_000)) is None


def test_a_transaction_is_late_when_its_producer_has_not_written_for_longer_than_any_timeout(tmp_path: Path) -> None:
    partition = Partition(1, "t", 0, UUID(int=1), new_log(tmp_path), EPOCHS.get, Reported())
    for producer_id, timestamp in ((7, 1_000), (8, 9_000)):
        partition.take_leadership(Leadership(1, 1, (1,), (1,)), IsrRules(10_000, 1), 1_000, CLOCKS.now())
        assert partition.log is not None
        number = partition.log.producers.verifications.begin(producer_id, 0, 0, CLOCKS.monotonic(), raises_epoch=False)
        records = [NewRecord(b"k", b"v", timestamp)]
        written = build_batch(
            records, attributes=TRANSACTIONAL_BIT, producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        assert isinstance(partition.append(bytearray(written), CLOCKS.monotonic(), verification=number), int)

    def late(now: int) -> float:
        return samples(producer_metrics([partition], WallMs(now), 2_000))[LATE]

    assert late(3_000) == 0
    assert late(3_001) == 1
    partition.take_leadership(Leadership(2, 2, (1, 2), (1, 2)), IsrRules(10_000, 1), 1_000, CLOCKS.now())
    assert late(3_001) == 0, "that is for the leader to count"
