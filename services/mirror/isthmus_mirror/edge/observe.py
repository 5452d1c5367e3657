"""The metrics of a mirror: its own, and MirrorMaker's under the names of its Grafana dashboard."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from isthmus_client.clock import monotonic_ms
from isthmus_model.lag import lag_records
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.edge.flow import FlowRunner
from isthmus_mirror.edge.latency import Spread
from isthmus_mirror.edge.targets import Target

_BY_PARTITION: Final = ("flow", "topic", "partition")
_THEIRS: Final = ("source", "target", "topic", "partition")
_PREFIX: Final = "kafka_connect_mirror_mirrorsourceconnector"

Rows = list[tuple[FlowRunner, Target[PartitionCopy]]]


class MirrorCollector(Collector):
    """The metrics of this process's current flows and partitions."""

    def __init__(self, runners: Callable[[], Collection[FlowRunner]]) -> None:
        self._runners = runners

    def collect(self) -> Iterator[Metric]:
        """The metrics for Prometheus."""
        runners = [runner for runner in self._runners() if runner.settings.enabled]
        up = GaugeMetricFamily("isthmus_mirror_up", "1 while the flow can copy", labels=("flow",))
        for runner in runners:
            up.add_metric((runner.settings.name,), float(not runner.not_ready()))
        yield up
        rows: Rows = [(runner, target) for runner in runners for target in runner.copier.targets.values()]
        yield from _lags(rows)
        yield from _counters(rows)
        yield from _mirror_maker(rows)


def _lags(rows: Rows) -> Iterator[Metric]:
    records = GaugeMetricFamily("isthmus_mirror_lag_records", "Offsets that are not copied yet", labels=_BY_PARTITION)
    seconds = GaugeMetricFamily(
        "isthmus_mirror_lag_seconds", "Time since the copy was last caught up with its source", labels=_BY_PARTITION
    )
    failed = GaugeMetricFamily("isthmus_mirror_failed", "1 if copying the partition failed", labels=_BY_PARTITION)
    runs = GaugeMetricFamily("isthmus_mirror_map_runs", "Contiguous runs of the offset map", labels=_BY_PARTITION)
    now = monotonic_ms()
    for runner, target in rows:
        labels, copy = _labels(runner, target), target.copy
        lag = lag_records(copy.source_end, copy.reached) if copy.is_placed else None
        if lag is not None:
            records.add_metric(labels, lag)
        if copy.lag_ms(now) >= 0:
            seconds.add_metric(labels, copy.lag_ms(now) / 1000)
        failed.add_metric(labels, float(bool(copy.failure)))
        runs.add_metric(labels, len(copy.map))
    yield from (records, seconds, failed, runs)


def _counters(rows: Rows) -> Iterator[Metric]:
    families = {
        "bytes": CounterMetricFamily("isthmus_mirror_bytes", "Bytes of copied batches", labels=_BY_PARTITION),
        "records": CounterMetricFamily("isthmus_mirror_records", "Copied records", labels=_BY_PARTITION),
        "errors": CounterMetricFamily("isthmus_mirror_errors", "Refused or lost requests", labels=_BY_PARTITION),
        "gap_offsets": CounterMetricFamily(
            "isthmus_mirror_gap_offsets",
            "Offsets that the source's retention removed before they were copied",
            labels=_BY_PARTITION,
        ),
    }
    for runner, target in rows:
        for name, family in families.items():
            family.add_metric(_labels(runner, target), getattr(target.copy.counters, name))
    yield from families.values()


def _mirror_maker(rows: Rows) -> Iterator[Metric]:
    yield from _spreads("record_age_ms", rows, lambda target: target.latency.age)
    yield from _spreads("replication_latency_ms", rows, lambda target: target.latency.replication)
    values: dict[str, Callable[[Target[PartitionCopy]], float]] = {
        "record_count": lambda target: target.copy.counters.records,
        "record_rate": lambda target: target.latency.record_rate,
        "byte_count": lambda target: target.copy.counters.bytes,
        "byte_rate": lambda target: target.latency.byte_rate,
    }
    for name, value in values.items():
        yield _gauge(name, rows, value)


def _spreads(name: str, rows: Rows, of: Callable[[Target[PartitionCopy]], Spread]) -> Iterable[Metric]:
    yield _gauge(name, rows, lambda target: of(target).last)
    yield _gauge(f"{name}_min", rows, lambda target: of(target).least)
    yield _gauge(f"{name}_max", rows, lambda target: of(target).greatest)
    yield _gauge(f"{name}_avg", rows, lambda target: of(target).mean)


def _gauge(name: str, rows: Rows, value: Callable[[Target[PartitionCopy]], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", f"MirrorMaker's {name.replace('_', '-')}", labels=_THEIRS)
    for runner, target in rows:
        remote = target.assignment.target
        labels = (runner.settings.source, runner.settings.target, remote.topic, str(remote.partition))
        family.add_metric(labels, value(target))
    return family


def _labels(runner: FlowRunner, target: Target[PartitionCopy]) -> tuple[str, str, str]:
    remote = target.assignment.target
    return runner.settings.name, remote.topic, str(remote.partition)
