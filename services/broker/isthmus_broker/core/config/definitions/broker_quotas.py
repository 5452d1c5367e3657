"""Broker configurations that exist only dynamically: replication quotas."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import MAX_LONG, Type

QUOTAS = (
    Definition(
        "follower.replication.throttled.rate", Type.LONG, MAX_LONG, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "leader.replication.throttled.rate", Type.LONG, MAX_LONG, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Type.LONG,
        MAX_LONG,
        Range(0),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
    ),
)
