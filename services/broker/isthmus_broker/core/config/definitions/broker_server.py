"""Broker configurations of the server as a whole: threads, requests, fetches, metrics, quotas."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import ListOf, Range
from isthmus_broker.core.config.values import Type

SERVER = (
    Definition("alter.log.dirs.replication.quota.window.num", Type.INT, 11, Range(1), Importance.LOW),
    Definition("alter.log.dirs.replication.quota.window.size.seconds", Type.INT, 1, Range(1), Importance.LOW),
    Definition("background.threads", Type.INT, 10, Range(1), Importance.HIGH, Change.CLUSTER_WIDE),
    Definition(
        "broker.rack",
        Type.STRING,
        None,
        None,
        Importance.MEDIUM,
        doc="The location of the broker; the region is the part before the first slash.",
    ),
    Definition("client.quota.callback.class", Type.CLASS, None, None, Importance.LOW),
    Definition("config.providers", Type.LIST, (), ListOf(may_be_empty=True), Importance.LOW, Change.CLUSTER_WIDE),
    Definition(
        "controlled.shutdown.enable",
        Type.BOOLEAN,
        True,
        None,
        Importance.MEDIUM,
        doc="Whether a stopping broker first moves its leaderships to other brokers.",
    ),
    Definition("delete.topic.enable", Type.BOOLEAN, True, None, Importance.HIGH, doc="Whether topics may be deleted."),
    Definition(
        "fetch.max.bytes",
        Type.INT,
        57_671_680,
        Range(1024),
        Importance.MEDIUM,
        doc="The maximum size of a fetch response.",
    ),
    Definition("kafka.metrics.polling.interval.secs", Type.INT, 10, Range(1), Importance.LOW),
    Definition("kafka.metrics.reporters", Type.LIST, (), ListOf(may_be_empty=True), Importance.LOW),
    Definition(
        "max.incremental.fetch.session.cache.slots",
        Type.INT,
        1000,
        Range(0),
        Importance.MEDIUM,
        doc="The maximum number of incremental fetch sessions.",
    ),
    Definition(
        "max.request.partition.size.limit",
        Type.INT,
        2000,
        Range(1),
        Importance.MEDIUM,
        doc="The maximum number of partitions in a DescribeTopicPartitions response.",
    ),
    Definition(
        "metric.reporters",
        Type.LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        ListOf(may_be_empty=True),
        Importance.LOW,
        Change.CLUSTER_WIDE,
    ),
    Definition("metrics.num.samples", Type.INT, 2, Range(1), Importance.LOW),
    Definition("metrics.recording.level", Type.STRING, "INFO", None, Importance.LOW),
    Definition("metrics.sample.window.ms", Type.LONG, 30_000, Range(1), Importance.LOW),
    Definition(
        "num.io.threads",
        Type.INT,
        8,
        Range(1),
        Importance.HIGH,
        Change.CLUSTER_WIDE,
        "Request threads; accepted without effect.",
    ),
    Definition("quota.window.num", Type.INT, 11, Range(1), Importance.LOW),
    Definition("quota.window.size.seconds", Type.INT, 1, Range(1), Importance.LOW),
    Definition(
        "request.timeout.ms",
        Type.INT,
        30_000,
        None,
        Importance.HIGH,
        doc="The timeout of requests to other brokers.",
    ),
    Definition("share.fetch.purgatory.purge.interval.requests", Type.INT, 1000, None, Importance.MEDIUM),
    Definition("telemetry.max.bytes", Type.INT, 1_048_576, Range(1), Importance.LOW),
    Definition("unstable.api.versions.enable", Type.BOOLEAN, False, None, Importance.HIGH, internal=True),
    Definition("unstable.feature.versions.enable", Type.BOOLEAN, False, None, Importance.HIGH, internal=True),
)
