"""Broker configurations of streams groups."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import MAX_INT, Type

STREAMS = (
    Definition(
        "group.streams.assignment.interval.ms", Type.INT, 1000, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition("group.streams.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition("group.streams.initial.rebalance.delay.ms", Type.INT, 3000, Range(0), Importance.MEDIUM),
    Definition("group.streams.max.assignment.interval.ms", Type.INT, 15_000, Range(0), Importance.MEDIUM),
    Definition("group.streams.max.heartbeat.interval.ms", Type.INT, 15_000, Range(1), Importance.MEDIUM),
    Definition("group.streams.max.session.timeout.ms", Type.INT, 60_000, Range(1), Importance.MEDIUM),
    Definition("group.streams.max.size", Type.INT, MAX_INT, Range(1), Importance.MEDIUM),
    Definition("group.streams.max.standby.replicas", Type.INT, 2, Range(0), Importance.MEDIUM),
    Definition("group.streams.min.assignment.interval.ms", Type.INT, 0, Range(0), Importance.MEDIUM),
    Definition("group.streams.min.heartbeat.interval.ms", Type.INT, 5000, Range(1), Importance.MEDIUM),
    Definition("group.streams.min.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
    Definition("group.streams.num.standby.replicas", Type.INT, 0, Range(0), Importance.MEDIUM),
    Definition("group.streams.session.timeout.ms", Type.INT, 45_000, Range(1), Importance.MEDIUM),
)
