"""Samples of lag of the partitions that a mirror copies."""

from collections.abc import Iterator, Mapping

from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.metadata import TopicPartition
from isthmus_model.lag_samples import CopyKind, LagSample

from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.targets import Target


def lag_samples(
    settings: FlowSettings, source: Client, target: Client, targets: Mapping[TopicPartition, Target[PartitionCopy]]
) -> Iterator[LagSample]:
    """One sample for each partition whose both end offsets are known."""
    now, at = monotonic_ms(), wall_ms()
    for partition, one in targets.items():
        copy, remote = one.copy, one.assignment.target
        if copy.source_end < 0 or not copy.is_placed:
            continue
        yield LagSample(
            kind=CopyKind.MIRROR,
            link=settings.name,
            source_cluster=source.view.cluster_id or "",
            target_cluster=target.view.cluster_id or "",
            source_region=source.view.region_led_from(partition),
            target_region=target.view.region_led_from(remote),
            source_topic=partition.topic,
            topic=remote.topic,
            partition=remote.partition,
            target_broker=-1,
            source_end=copy.source_end,
            target_end=copy.reached,
            lag_ms=copy.lag_ms(now),
            at_ms=at,
        )
