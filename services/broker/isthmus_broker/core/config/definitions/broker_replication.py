"""Broker configurations of replication and leadership."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import Type

REPLICATION = (
    Definition("auto.leader.rebalance.enable", Type.BOOLEAN, True, None, Importance.HIGH),
    Definition(
        "default.replication.factor",
        Type.INT,
        1,
        None,
        Importance.MEDIUM,
        doc="The replication factor of topics created without one.",
    ),
    Definition("delete.records.purgatory.purge.interval.requests", Type.INT, 1, None, Importance.MEDIUM),
    Definition("fetch.purgatory.purge.interval.requests", Type.INT, 1000, None, Importance.MEDIUM),
    Definition(
        "inter.broker.listener.name",
        Type.STRING,
        None,
        None,
        Importance.MEDIUM,
        doc="The listener for connections between brokers.",
    ),
    Definition("leader.imbalance.check.interval.seconds", Type.LONG, 300, Range(1), Importance.HIGH),
    Definition("num.replica.alter.log.dirs.threads", Type.INT, None, None, Importance.HIGH),
    Definition("num.replica.fetchers", Type.INT, 1, Range(1), Importance.HIGH, Change.CLUSTER_WIDE),
    Definition("producer.purgatory.purge.interval.requests", Type.INT, 1000, None, Importance.MEDIUM),
    Definition("replica.fetch.backoff.ms", Type.INT, 1000, Range(0), Importance.MEDIUM),
    Definition("replica.fetch.max.bytes", Type.INT, 1_048_576, Range(0), Importance.MEDIUM),
    Definition("replica.fetch.min.bytes", Type.INT, 1, None, Importance.HIGH),
    Definition("replica.fetch.response.max.bytes", Type.INT, 10_485_760, Range(0), Importance.MEDIUM),
    Definition("replica.fetch.wait.max.ms", Type.INT, 500, None, Importance.HIGH),
    Definition("replica.high.watermark.checkpoint.interval.ms", Type.LONG, 5000, None, Importance.HIGH),
    Definition(
        "replica.lag.time.max.ms",
        Type.LONG,
        30_000,
        None,
        Importance.HIGH,
        doc="The time behind the leader after which a follower is removed from the ISR.",
    ),
    Definition("replica.selector.class", Type.STRING, None, None, Importance.MEDIUM),
    Definition("replica.socket.receive.buffer.bytes", Type.INT, 65_536, None, Importance.HIGH),
    Definition("replica.socket.timeout.ms", Type.INT, 30_000, None, Importance.HIGH),
    Definition("replication.quota.window.num", Type.INT, 11, Range(1), Importance.LOW),
    Definition("replication.quota.window.size.seconds", Type.INT, 1, Range(1), Importance.LOW),
    Definition(
        "unclean.leader.election.enable",
        Type.BOOLEAN,
        False,
        None,
        Importance.HIGH,
        Change.CLUSTER_WIDE,
        "Default of the topic configuration of the same name.",
    ),
    Definition("unclean.leader.election.interval.ms", Type.LONG, 300_000, Range(1), Importance.MEDIUM, internal=True),
)
