"""Group configurations: settings of a single group."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Definition, Importance
from isthmus_broker.core.config.validators import OffsetReset, OneOf, Range
from isthmus_broker.core.config.values import Type

GROUP = (
    Definition(
        "consumer.assignment.interval.ms",
        Type.INT,
        1000,
        Range(0),
        Importance.MEDIUM,
        doc="The minimum interval between two assignments of this consumer group.",
    ),
    Definition(
        "consumer.heartbeat.interval.ms",
        Type.INT,
        5000,
        Range(1),
        Importance.MEDIUM,
        doc="The heartbeat interval that the group coordinator assigns to members of this consumer group.",
    ),
    Definition(
        "consumer.session.timeout.ms",
        Type.INT,
        45_000,
        Range(1),
        Importance.MEDIUM,
        doc="The time without a heartbeat after which a member of this consumer group is removed.",
    ),
    Definition("share.assignment.interval.ms", Type.INT, 1000, Range(0), Importance.MEDIUM),
    Definition("share.auto.offset.reset", Type.STRING, "latest", OffsetReset(), Importance.MEDIUM),
    Definition("share.delivery.count.limit", Type.INT, 5, Range(2), Importance.MEDIUM),
    Definition("share.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition(
        "share.isolation.level",
        Type.STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        Importance.MEDIUM,
    ),
    Definition("share.partition.max.record.locks", Type.INT, 2000, Range(100), Importance.MEDIUM),
    Definition("share.record.lock.duration.ms", Type.INT, 30_000, Range(1000), Importance.MEDIUM),
    Definition("share.renew.acknowledge.enable", Type.BOOLEAN, True, None, Importance.MEDIUM),
    Definition("share.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
    Definition("streams.assignment.interval.ms", Type.INT, 1000, Range(0), Importance.MEDIUM),
    Definition("streams.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition("streams.initial.rebalance.delay.ms", Type.INT, 3000, Range(0), Importance.MEDIUM),
    Definition("streams.num.standby.replicas", Type.INT, 0, Range(0), Importance.MEDIUM),
    Definition("streams.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
)
