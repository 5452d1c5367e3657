"""Broker configurations of log compaction."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import MAX_LONG, Type

CLEANER = (
    Definition(
        "log.cleaner.backoff.ms",
        Type.LONG,
        15_000,
        Range(0),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Pause of the cleaner when there is nothing to compact.",
    ),
    Definition(
        "log.cleaner.dedupe.buffer.size",
        Type.LONG,
        134_217_728,
        None,
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Memory for the key maps of all cleaner threads.",
    ),
    Definition(
        "log.cleaner.delete.retention.ms",
        Type.LONG,
        86_400_000,
        Range(0),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration delete.retention.ms.",
    ),
    Definition("log.cleaner.enable", Type.BOOLEAN, True, None, Importance.MEDIUM, doc="Whether logs are compacted."),
    Definition("log.cleaner.io.buffer.load.factor", Type.DOUBLE, 0.9, None, Importance.MEDIUM, Change.CLUSTER_WIDE),
    Definition("log.cleaner.io.buffer.size", Type.INT, 524_288, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE),
    Definition(
        "log.cleaner.io.max.bytes.per.second",
        Type.DOUBLE,
        1.7976931348623157e308,
        None,
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.max.compaction.lag.ms",
        Type.LONG,
        MAX_LONG,
        Range(1),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration max.compaction.lag.ms.",
    ),
    Definition(
        "log.cleaner.min.cleanable.ratio",
        Type.DOUBLE,
        0.5,
        Range(0, 1),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration min.cleanable.dirty.ratio.",
    ),
    Definition(
        "log.cleaner.min.compaction.lag.ms",
        Type.LONG,
        0,
        Range(0),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration min.compaction.lag.ms.",
    ),
    Definition("log.cleaner.threads", Type.INT, 1, Range(0), Importance.MEDIUM, Change.CLUSTER_WIDE),
)
