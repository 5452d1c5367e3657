"""A node's metrics, under the names that dashboards made for Kafka's JMX exporter use.

They are read at a scrape: requests count nothing beyond what partitions and dispatchers count anyway.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from isthmus_model.clocks import WallMs
from isthmus_wire.apis import ApiKey
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isthmus_broker.core.log.producer_state import ProducerState
from isthmus_broker.edge.observe.coordinator_metrics import group_metrics, transaction_metrics
from isthmus_broker.edge.observe.node_view import NodeView
from isthmus_broker.edge.observe.tier_metrics import tier_metrics
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.cleaner import Uncleanable

NO_LEADER: Final = -1
LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60_000
"""What Kafka adds to transaction.max.timeout.ms before a transaction is late."""
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")


class NodeMetrics(Collector):
    """Reads a node when it is scraped."""

    def __init__(self, node: NodeView) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """All families, each once."""
        yield from self._network()
        yield from self._quorum()
        if self._node.replicas is not None:
            partitions = list(self._node.replicas.partitions())
            yield from _broker(partitions)
            yield from _topics(partitions)
            yield from _logs(partitions)
            yield from _replication(partitions)
            yield from cleaner_metrics(self._node.uncleanable())
            yield from producer_metrics(
                partitions, self._node.wall_clock(), self._node.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
            )
        if self._node.transactions is not None:
            yield from transaction_metrics(self._node.transactions())
        if self._node.groups is not None:
            yield from group_metrics(self._node.groups())
        if self._node.tier is not None:
            yield from tier_metrics(self._node.tier)

    def describe(self) -> Iterator[Metric]:
        """Describe nothing in advance: it would read the node before it has started."""
        return iter(())

    def _network(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count", "Open connections.", labels=("listener",)
        )
        for listener in self._node.listeners:
            connections.add_metric((listener.listener_name,), len(listener.open()))
        requests = CounterMetricFamily("kafka_network_requestmetrics_requests", "Requests served.", labels=("request",))
        for key, count in sorted(self._node.served().items()):
            requests.add_metric((ApiKey(key).name.lower(),), count)
        return iter((connections, requests))

    def _quorum(self) -> Iterator[Metric]:
        raft = self._node.quorum.controller.raft
        leads = self._node.quorum.leader_id == self._node.node_id
        yield GaugeMetricFamily(
            "kafka_controller_kafkacontroller_activecontrollercount", "1 on the active controller.", value=int(leads)
        )
        if leads:
            image = self._node.image()
            partitions = [p for topic in image.topics.by_id.values() for p in topic.partitions.values()]
            offline = sum(partition.leader == NO_LEADER for partition in partitions)
            fenced = sum(broker.fenced for broker in image.brokers.values())
            for name, help_text, value in (
                ("offlinepartitionscount", "Partitions without a leader.", offline),
                ("globaltopiccount", "Topics.", len(image.topics.by_id)),
                ("globalpartitioncount", "Partitions.", len(partitions)),
                ("fencedbrokercount", "Registered brokers that are fenced.", fenced),
                ("activebrokercount", "Registered brokers that are not fenced.", len(image.brokers) - fenced),
            ):
                yield GaugeMetricFamily(f"kafka_controller_kafkacontroller_{name}", help_text, value=value)
        if raft is not None:
            core = raft.core
            leader = core.leader_id
            for name, help_text, value in (
                ("current_leader", "Node id of the quorum's leader, -1 if unknown.", -1 if leader is None else leader),
                ("current_epoch", "The quorum's epoch.", core.epoch),
                ("log_end_offset", "Log end offset of this node's metadata log.", core.log_end),
                ("high_watermark", "High watermark of the metadata log.", core.high_watermark),
            ):
                yield GaugeMetricFamily(f"kafka_server_raftmetrics_{name}", help_text, value=value)


def _broker(partitions: Sequence[Partition]) -> Iterator[Metric]:
    led = [partition for partition in partitions if partition.leader is not None]
    in_sync = [(len(p.leadership.isr), p.leader.rules.min_isr) for p in led if p.leader is not None]
    lagging = sum(len(p.leadership.isr) < len(p.leadership.replicas) - len(p.leadership.observers) for p in led)
    for name, help_text, value in (
        ("leadercount", "Partitions whose leader is this broker.", len(led)),
        ("partitioncount", "Replicas on this broker.", len(partitions)),
        ("offlinereplicacount", "Replicas whose log directory is offline.", sum(p.log is None for p in partitions)),
        ("underreplicatedpartitions", "Led partitions with out-of-sync replicas.", lagging),
        (
            "underminisrpartitioncount",
            "Led partitions below min.insync.replicas.",
            sum(isr < least for isr, least in in_sync),
        ),
        (
            "atminisrpartitioncount",
            "Led partitions with exactly min.insync.replicas in sync.",
            sum(isr == least for isr, least in in_sync),
        ),
    ):
        yield GaugeMetricFamily(f"kafka_server_replicamanager_{name}", help_text, value=value)


def _topics(partitions: Sequence[Partition]) -> Iterator[Metric]:
    counted: dict[str, list[int]] = {}
    for partition in partitions:
        sums = counted.setdefault(partition.topic, [0, 0, 0, 0])
        counts = (partition.bytes_in, partition.records_in, partition.bytes_out, partition.replicated_out)
        for place, count in enumerate(counts):
            sums[place] += count
    for place, (name, help_text) in enumerate(
        (
            ("bytesin", "Bytes from producers and links."),
            ("messagesin", "Records from producers."),
            ("bytesout", "Bytes to consumers."),
            ("replicationbytesout", "Bytes to other replicas."),
        )
    ):
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", help_text, labels=_TOPIC)
        for topic, sums in sorted(counted.items()):
            family.add_metric((topic,), sums[place])
        yield family


def _logs(partitions: Sequence[Partition]) -> Iterator[Metric]:
    families = [
        GaugeMetricFamily(f"kafka_log_log_{name}", help_text, labels=_PARTITION)
        for name, help_text in (
            ("size", "Bytes of a log."),
            ("logstartoffset", "Log start offset."),
            ("logendoffset", "Log end offset."),
        )
    ]
    for partition in partitions:
        if partition.log is not None:
            labels, log = (partition.topic, str(partition.index)), partition.log
            for family, value in zip(families, (log.size, log.log_start_offset, log.end_offset), strict=True):
                family.add_metric(labels, value)
    return iter(families)


def cleaner_metrics(uncleanable: Mapping[Path, Uncleanable]) -> Iterator[Metric]:
    """The compacted logs of each directory that are not compacted any more."""
    families = [
        GaugeMetricFamily(f"kafka_log_logcleanermanager_uncleanable_{name}", help_text, labels=("logDirectory",))
        for name, help_text in (
            ("partitions_count", "Compacted logs that cannot be cleaned until the node restarts."),
            ("bytes", "Bytes of these logs that were not cleaned."),
        )
    ]
    for directory, count in sorted(uncleanable.items()):
        for family, value in zip(families, count, strict=True):
            family.add_metric((str(directory),), value)
    return iter(families)


def producer_metrics(partitions: Sequence[Partition], now: WallMs, late_after_ms: int) -> Iterator[Metric]:
    """Producers and open transactions in the logs; a transaction is late when its producer last wrote that long ago."""
    states = [partition.log.producers for partition in partitions if partition.log is not None]
    producers = sum(len(state.producers) for state in states)
    is_open = sum(state.first_open_offset() is not None for state in states)
    late = sum(
        _is_late(partition.log.producers, now - late_after_ms)
        for partition in partitions
        if partition.leader is not None and partition.log is not None
    )
    for name, help_text, value in (
        ("kafka_server_replicamanager_produceridcount", "Producers in the state of all logs.", producers),
        (
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            "Led partitions whose oldest open transaction has outlived every timeout.",
            late,
        ),
        (
            "isthmus_partitions_with_open_transactions",
            "Logs whose last stable offset waits for a transaction.",
            is_open,
        ),
    ):
        yield GaugeMetricFamily(name, help_text, value=value)


def _is_late(state: ProducerState, before: int) -> bool:
    first = state.first_open_offset()
    return first is not None and any(producer.last_timestamp < before for producer in state.opened_before(first + 1))


def _replication(partitions: Sequence[Partition]) -> Iterator[Metric]:
    families = [
        GaugeMetricFamily(f"kafka_cluster_partition_{name}", help_text, labels=_PARTITION)
        for name, help_text in (
            ("replicascount", "Replicas of a led partition."),
            ("insyncreplicascount", "In-sync replicas of a led partition."),
            ("observersinisrcount", "In-sync replicas that are observers."),
        )
    ]
    for partition in partitions:
        if partition.leader is not None:
            leadership = partition.leadership
            promoted = sum(replica in leadership.observers for replica in leadership.isr)
            for family, value in zip(families, (len(leadership.replicas), len(leadership.isr), promoted), strict=True):
                family.add_metric((partition.topic, str(partition.index)), value)
    return iter(families)
