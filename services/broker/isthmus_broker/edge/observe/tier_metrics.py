"""Metrics of tiered storage, under Kafka's names. A partition that had no run yet has no lag here: it is unknown."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from isthmus_broker.edge.tier.counts import PartitionState, TierCounts, TopicCounts

_TOPIC: Final = ("topic",)
_PREFIX: Final = "kafka_server_brokertopicmetrics_remote"
_COUNTERS: Final[tuple[tuple[str, str, Callable[[TopicCounts], int]], ...]] = (
    ("copybytes", "Bytes of segments copied to the tier.", lambda of: of.copied_bytes),
    ("copyrequests", "Copies of segments to the tier that were begun.", lambda of: of.copies),
    ("copyerrors", "Copies of segments to the tier that failed.", lambda of: of.copy_errors),
    ("deleterequests", "Deletions of segments in the tier that were begun.", lambda of: of.deletions),
    ("deleteerrors", "Deletions of segments in the tier that failed.", lambda of: of.deletion_errors),
)
_GAUGES: Final[tuple[tuple[str, str, Callable[[PartitionState], int]], ...]] = (
    ("copylagsegments", "Closed segments that are still to be copied.", lambda of: of.lag_segments),
    ("copylagbytes", "Bytes of closed segments that are still to be copied.", lambda of: of.lag_bytes),
    ("logmetadatacount", "Segments in the metadata of the tier.", lambda of: of.segments),
    ("logsizebytes", "Bytes of the segments in the tier, before compression.", lambda of: of.size),
)


def tier_metrics(counts: TierCounts) -> Iterator[Metric]:
    """The counters of this broker, and the state of the partitions that it leads, by topic."""
    for name, help_text, value_of in _COUNTERS:
        counter = CounterMetricFamily(_PREFIX + name, help_text, labels=_TOPIC)
        for topic, of_topic in sorted(counts.topics.items()):
            counter.add_metric((topic,), value_of(of_topic))
        yield counter
    by_topic: defaultdict[str, list[PartitionState]] = defaultdict(list)
    for place, state in counts.partitions.items():
        by_topic[place.topic].append(state)
    for name, help_text, state_value in _GAUGES:
        gauge = GaugeMetricFamily(_PREFIX + name, help_text, labels=_TOPIC)
        for topic, states in sorted(by_topic.items()):
            gauge.add_metric((topic,), sum(map(state_value, states)))
        yield gauge
