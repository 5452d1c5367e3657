"""Broker configurations of tiered storage."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import NonEmpty, Range
from isthmus_broker.core.config.values import MAX_LONG, Type

REMOTE = (
    Definition(
        "follower.fetch.last.tiered.offset.enable", Type.BOOLEAN, False, None, Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "log.local.retention.bytes",
        Type.LONG,
        -2,
        Range(-2),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration local.retention.bytes.",
    ),
    Definition(
        "log.local.retention.ms",
        Type.LONG,
        -2,
        Range(-2),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration local.retention.ms.",
    ),
    Definition("remote.fetch.max.wait.ms", Type.INT, 500, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE),
    Definition(
        "remote.list.offsets.request.timeout.ms", Type.LONG, 30_000, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "remote.log.index.file.cache.total.size.bytes",
        Type.LONG,
        1_073_741_824,
        Range(1),
        Importance.LOW,
        Change.CLUSTER_WIDE,
    ),
    Definition("remote.log.index.file.cache.ttl.ms", Type.LONG, 900_000, Range(-1), Importance.LOW, internal=True),
    Definition(
        "remote.log.manager.copier.thread.pool.size", Type.INT, 10, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "remote.log.manager.copy.max.bytes.per.second",
        Type.LONG,
        MAX_LONG,
        Range(1),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
    ),
    Definition("remote.log.manager.copy.quota.window.num", Type.INT, 11, Range(1), Importance.MEDIUM),
    Definition("remote.log.manager.copy.quota.window.size.seconds", Type.INT, 1, Range(1), Importance.MEDIUM),
    Definition(
        "remote.log.manager.expiration.thread.pool.size", Type.INT, 10, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition(
        "remote.log.manager.fetch.max.bytes.per.second",
        Type.LONG,
        MAX_LONG,
        Range(1),
        Importance.MEDIUM,
        Change.CLUSTER_WIDE,
    ),
    Definition("remote.log.manager.fetch.quota.window.num", Type.INT, 11, Range(1), Importance.MEDIUM),
    Definition("remote.log.manager.fetch.quota.window.size.seconds", Type.INT, 1, Range(1), Importance.MEDIUM),
    Definition(
        "remote.log.manager.follower.thread.pool.size", Type.INT, 2, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE
    ),
    Definition("remote.log.manager.task.interval.ms", Type.LONG, 30_000, Range(1), Importance.LOW),
    Definition(
        "remote.log.manager.task.retry.backoff.max.ms", Type.LONG, 30_000, Range(1), Importance.LOW, internal=True
    ),
    Definition("remote.log.manager.task.retry.backoff.ms", Type.LONG, 500, Range(1), Importance.LOW, internal=True),
    Definition("remote.log.manager.task.retry.jitter", Type.DOUBLE, 0.2, Range(0, 0.5), Importance.LOW, internal=True),
    Definition("remote.log.manager.thread.pool.size", Type.INT, 2, Range(1), Importance.MEDIUM),
    Definition("remote.log.metadata.custom.metadata.max.bytes", Type.INT, 128, Range(0), Importance.LOW),
    Definition(
        "remote.log.metadata.manager.class.name",
        Type.STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NonEmpty(),
        Importance.MEDIUM,
    ),
    Definition("remote.log.metadata.manager.class.path", Type.STRING, None, None, Importance.MEDIUM),
    Definition("remote.log.metadata.manager.impl.prefix", Type.STRING, "rlmm.config.", NonEmpty(), Importance.MEDIUM),
    Definition("remote.log.metadata.manager.listener.name", Type.STRING, None, NonEmpty(), Importance.MEDIUM),
    Definition("remote.log.reader.max.pending.tasks", Type.INT, 100, Range(1), Importance.MEDIUM),
    Definition("remote.log.reader.threads", Type.INT, 10, Range(1), Importance.MEDIUM, Change.CLUSTER_WIDE),
    Definition("remote.log.storage.manager.class.name", Type.STRING, None, NonEmpty(), Importance.MEDIUM),
    Definition("remote.log.storage.manager.class.path", Type.STRING, None, None, Importance.MEDIUM),
    Definition("remote.log.storage.manager.impl.prefix", Type.STRING, "rsm.config.", NonEmpty(), Importance.MEDIUM),
    Definition("remote.log.storage.system.enable", Type.BOOLEAN, False, None, Importance.MEDIUM),
)
