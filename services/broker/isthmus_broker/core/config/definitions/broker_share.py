"""Broker configurations of share groups. They are validated but have no effect."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import ListOf, Range
from isthmus_broker.core.config.values import Type

SHARE = (
    Definition("group.share.assignment.interval.ms", Type.INT, 1000, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE),
    Definition("group.share.assignors", Type.LIST, ("simple",), ListOf(), Importance.MEDIUM),
    Definition("group.share.delivery.count.limit", Type.INT, 5, Range(2, 10), Importance.MEDIUM),
    Definition("group.share.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition("group.share.initialize.retry.interval.ms", Type.INT, 30_000, Range(1), Importance.LOW, internal=True),
    Definition("group.share.max.assignment.interval.ms", Type.INT, 15_000, Range(0), Importance.MEDIUM),
    Definition("group.share.max.delivery.count.limit", Type.INT, 10, Range(5, 25), Importance.MEDIUM),
    Definition("group.share.max.heartbeat.interval.ms", Type.INT, 15_000, Range(1), Importance.MEDIUM),
    Definition("group.share.max.partition.max.record.locks", Type.INT, 4000, Range(2000, 10_000), Importance.MEDIUM),
    Definition(
        "group.share.max.record.lock.duration.ms", Type.INT, 60_000, Range(30_000, 3_600_000), Importance.MEDIUM
    ),
    Definition("group.share.max.session.timeout.ms", Type.INT, 60_000, Range(1), Importance.MEDIUM),
    Definition("group.share.max.share.sessions", Type.INT, 2000, Range(1), Importance.MEDIUM),
    Definition("group.share.max.size", Type.INT, 200, Range(1, 1000), Importance.MEDIUM),
    Definition("group.share.min.assignment.interval.ms", Type.INT, 0, Range(0), Importance.MEDIUM),
    Definition("group.share.min.delivery.count.limit", Type.INT, 2, Range(2, 5), Importance.MEDIUM),
    Definition("group.share.min.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition("group.share.min.partition.max.record.locks", Type.INT, 100, Range(100, 2000), Importance.MEDIUM),
    Definition("group.share.min.record.lock.duration.ms", Type.INT, 15_000, Range(1000, 30_000), Importance.MEDIUM),
    Definition("group.share.min.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
    Definition("group.share.partition.max.record.locks", Type.INT, 2000, Range(100, 10_000), Importance.MEDIUM),
    Definition(
        "group.share.persister.class.name",
        Type.STRING,
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        None,
        Importance.MEDIUM,
        internal=True,
    ),
    Definition("group.share.record.lock.duration.ms", Type.INT, 30_000, Range(1000, 3_600_000), Importance.MEDIUM),
    Definition("group.share.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
    Definition("share.coordinator.append.linger.ms", Type.INT, -1, Range(-1), Importance.MEDIUM),
    Definition(
        "share.coordinator.cached.buffer.max.bytes",
        Type.INT,
        1_048_588,
        Range(524_288),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
    ),
    Definition(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        Type.INT,
        300_000,
        Range(1),
        Importance.LOW,
        internal=True,
    ),
    Definition("share.coordinator.load.buffer.size", Type.INT, 5_242_880, Range(1), Importance.HIGH),
    Definition(
        "share.coordinator.snapshot.update.records.per.snapshot", Type.INT, 500, Range(0, 500), Importance.MEDIUM
    ),
    Definition("share.coordinator.state.topic.compression.codec", Type.INT, 0, None, Importance.HIGH),
    Definition("share.coordinator.state.topic.min.isr", Type.SHORT, 2, Range(1), Importance.HIGH),
    Definition("share.coordinator.state.topic.num.partitions", Type.INT, 50, Range(1), Importance.HIGH),
    Definition(
        "share.coordinator.state.topic.prune.interval.ms", Type.INT, 300_000, Range(1), Importance.LOW, internal=True
    ),
    Definition("share.coordinator.state.topic.replication.factor", Type.SHORT, 3, Range(1), Importance.HIGH),
    Definition("share.coordinator.state.topic.segment.bytes", Type.INT, 104_857_600, Range(1), Importance.HIGH),
    Definition("share.coordinator.threads", Type.INT, 1, Range(1), Importance.MEDIUM),
    Definition("share.coordinator.write.timeout.ms", Type.INT, 5000, Range(1), Importance.HIGH),
)
