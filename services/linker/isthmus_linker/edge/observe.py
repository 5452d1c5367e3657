"""The metrics of a worker, and its samples of lag."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_model.lag import lag_records
from isthmus_model.lag_samples import CopyKind, LagSample
from isthmus_wire.extensions.links import LinkState
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isthmus_linker.edge.copier import Target
from isthmus_linker.edge.link import LinkRunner

_BY_PARTITION: Final = ("link", "topic", "partition")


class LinkCollector(Collector):
    """The metrics of this worker's current links and partitions."""

    def __init__(self, runners: Callable[[], Collection[LinkRunner]]) -> None:
        self._runners = runners

    def collect(self) -> Iterator[Metric]:
        """The metrics for Prometheus."""
        runners = self._runners()
        up = GaugeMetricFamily("isthmus_link_up", "1 while the source of the link is reachable", labels=("link",))
        for runner in runners:
            up.add_metric((runner.plan.name,), float(runner.reachability.health.state is LinkState.ACTIVE))
        yield up
        yield _source_brokers(runners)
        targets = [(runner.plan.name, target) for runner in runners for target in runner.copier.targets.values()]
        yield from _gauges(targets)
        yield from _counters(targets)


def _source_brokers(runners: Iterable[LinkRunner]) -> Metric:
    up = GaugeMetricFamily(
        "isthmus_link_source_broker_up", "1 while a source broker responds to fetches", labels=("link", "broker")
    )
    for runner in runners:
        for broker, responds in runner.copier.source_brokers.items():
            up.add_metric((runner.plan.name, str(broker)), float(responds))
    return up


def _gauges(targets: Iterable[tuple[str, Target]]) -> Iterator[Metric]:
    records = GaugeMetricFamily("isthmus_link_lag_records", "Offsets that are not copied yet", labels=_BY_PARTITION)
    seconds = GaugeMetricFamily(
        "isthmus_link_lag_seconds", "Time since the copy was last caught up with its source", labels=_BY_PARTITION
    )
    now = monotonic_ms()
    for link, target in targets:
        labels, copy = _labels(link, target), target.copy
        lag = lag_records(copy.high_watermark, copy.reached)
        if lag is not None:
            records.add_metric(labels, lag)
        lag_ms = copy.lag_ms(now)
        if lag_ms >= 0:
            seconds.add_metric(labels, lag_ms / 1000)
    yield records
    yield seconds


def _counters(targets: Iterable[tuple[str, Target]]) -> Iterator[Metric]:
    families = {
        "bytes": CounterMetricFamily("isthmus_link_bytes", "Bytes of copied batches", labels=_BY_PARTITION),
        "offsets": CounterMetricFamily("isthmus_link_offsets", "Copied offsets", labels=_BY_PARTITION),
        "errors": CounterMetricFamily("isthmus_link_errors", "Refused or lost requests", labels=_BY_PARTITION),
        "gap_offsets": CounterMetricFamily(
            "isthmus_link_gap_offsets",
            "Offsets that the source's retention removed before they were copied",
            labels=_BY_PARTITION,
        ),
    }
    for link, target in targets:
        for name, family in families.items():
            family.add_metric(_labels(link, target), getattr(target.copy.counters, name))
    yield from families.values()


def _labels(link: str, target: Target) -> tuple[str, str, str]:
    partition = target.assignment.destination
    return link, partition.topic, str(partition.partition)


def lag_samples(runner: LinkRunner, destination: Client) -> Iterator[LagSample]:
    """One sample for each partition whose both end offsets are known."""
    now, at = monotonic_ms(), wall_ms()
    for partition, target in runner.copier.targets.items():
        copy, source = target.copy, target.assignment.source
        if copy.end < 0 or copy.high_watermark < 0:
            continue
        yield LagSample(
            kind=CopyKind.LINK,
            link=runner.plan.name,
            source_cluster=runner.source.view.cluster_id or runner.plan.source_cluster_id,
            target_cluster=destination.view.cluster_id or "",
            source_region=runner.source.view.region_led_from(source),
            target_region=destination.view.region_led_from(partition),
            source_topic=source.topic,
            topic=partition.topic,
            partition=partition.partition,
            target_broker=-1,
            source_end=copy.high_watermark,
            target_end=copy.reached,
            lag_ms=copy.lag_ms(now),
            at_ms=at,
        )
