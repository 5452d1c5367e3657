"""Metrics of the coordinators of groups and transactions."""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from isthmus_broker.edge.coordinators.counts import GroupCounts, LoadTime, TransactionCounts

_GROUPS: Final = "kafka_server_group_coordinator_metrics"
_TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics"
_VERIFICATIONS: Final = "kafka_server_addpartitionstotxnmanager"
_CLASSIC_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
_STREAMS_STATES: Final = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead")
_REBALANCES: Final = {
    "classic": "group_completed_rebalance",
    "consumer": "consumer_group_rebalance",
    "streams": "streams_group_rebalance",
}


def transaction_metrics(counts: TransactionCounts) -> Iterator[Metric]:
    """The transactions whose coordinator is this node, and the checks of its partitions with any coordinator."""
    states = GaugeMetricFamily("isthmus_transactional_ids", "Transactional ids by state.", labels=("state",))
    for state, count in sorted(counts.by_state.items()):
        states.add_metric((state,), count)
    yield states
    yield GaugeMetricFamily(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Transaction markers that wait for a leader.",
        value=counts.markers_without_leader,
    )
    yield CounterMetricFamily(
        "isthmus_illegal_transaction_transitions",
        "Transitions that were refused because no request may cause them.",
        value=counts.illegal_transitions,
    )
    yield from _load_times(_TRANSACTIONS, counts.load_time)
    yield CounterMetricFamily(
        f"{_VERIFICATIONS}_verificationfailurerate",
        "Partitions that their transaction's coordinator did not verify.",
        value=counts.verifications.failures,
    )
    yield SummaryMetricFamily(
        f"{_VERIFICATIONS}_verificationtimems",
        "Milliseconds from a verification's request to its response.",
        count_value=counts.verifications.responses,
        sum_value=counts.verifications.milliseconds,
    )


def group_metrics(counts: GroupCounts) -> Iterator[Metric]:
    """The groups whose coordinator is this node."""
    yield from _load_times(_GROUPS, counts.load_time)
    yield _by_label(
        f"{_GROUPS}_num_partitions", "Partitions of __consumer_offsets by state.", "state", counts.partitions
    )
    by_type = {
        kind: {state: counts.by_state.get((kind, state), 0) for state in states}
        for kind, states in (("classic", _CLASSIC_STATES), ("consumer", _CONSUMER_STATES), ("streams", _STREAMS_STATES))
    }
    totals = {kind: sum(states.values()) for kind, states in by_type.items()}
    yield _by_label(f"{_GROUPS}_group_count", "Groups by protocol.", "protocol", totals)
    for kind in ("consumer", "streams"):
        yield _by_label(f"{_GROUPS}_{kind}_group_count", f"Groups of type {kind} by state.", "state", by_type[kind])
    manager = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    yield GaugeMetricFamily(manager, "Classic groups.", value=totals["classic"])
    for state, count in by_type["classic"].items():
        yield GaugeMetricFamily(manager + state.lower(), f"Classic groups in state {state}.", value=count)
    for kind, name in _REBALANCES.items():
        yield CounterMetricFamily(
            f"{_GROUPS}_{name}_count", f"Rebalances of groups of type {kind}.", value=counts.rebalances.get(kind, 0)
        )


def _by_label(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _load_times(prefix: str, load_time: LoadTime | None) -> Iterator[Metric]:
    """Without samples when no partition was loaded: that is not a load of 0 ms."""
    for name, help_text, value in (
        (
            "max",
            "Longest load of a partition in the last 30 s, in ms.",
            None if load_time is None else load_time.max_ms,
        ),
        (
            "avg",
            "Average load of a partition in the last 30 s, in ms.",
            None if load_time is None else load_time.average_ms,
        ),
    ):
        family = GaugeMetricFamily(f"{prefix}_partition_load_time_{name}", help_text)
        if value is not None:
            family.add_metric((), value)
        yield family
