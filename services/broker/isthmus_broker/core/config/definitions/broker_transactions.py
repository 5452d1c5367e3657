"""Broker configurations of transactions and producer ids."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import Type

TRANSACTIONS = (
    Definition("add.partitions.to.txn.retry.backoff.max.ms", Type.INT, 100, Range(0), Importance.HIGH),
    Definition("add.partitions.to.txn.retry.backoff.ms", Type.INT, 20, Range(1), Importance.HIGH),
    Definition("producer.id.expiration.check.interval.ms", Type.INT, 600_000, Range(1), Importance.LOW, internal=True),
    Definition(
        "producer.id.expiration.ms",
        Type.INT,
        86_400_000,
        Range(1),
        Importance.LOW,
        Change.CLUSTER_WIDE,
        "The time after which the state of an idle producer is removed.",
    ),
    Definition(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type.INT, 10_000, Range(1), Importance.LOW
    ),
    Definition(
        "transaction.max.timeout.ms",
        Type.INT,
        900_000,
        Range(1),
        Importance.HIGH,
        doc="The maximum transaction timeout of a producer.",
    ),
    Definition(
        "transaction.partition.verification.enable", Type.BOOLEAN, True, None, Importance.LOW, Change.CLUSTER_WIDE
    ),
    Definition(
        "transaction.remove.expired.transaction.cleanup.interval.ms", Type.INT, 3_600_000, Range(1), Importance.LOW
    ),
    Definition("transaction.state.log.load.buffer.size", Type.INT, 5_242_880, Range(1), Importance.HIGH),
    Definition(
        "transaction.state.log.min.isr",
        Type.INT,
        2,
        Range(1),
        Importance.HIGH,
        doc="The minimum number of in-sync replicas of the transactions topic.",
    ),
    Definition(
        "transaction.state.log.num.partitions",
        Type.INT,
        50,
        Range(1),
        Importance.HIGH,
        doc="The number of partitions of the transactions topic; must not be changed after its creation.",
    ),
    Definition(
        "transaction.state.log.replication.factor",
        Type.SHORT,
        3,
        Range(1),
        Importance.HIGH,
        doc="The replication factor of the transactions topic.",
    ),
    Definition(
        "transaction.state.log.segment.bytes",
        Type.INT,
        104_857_600,
        Range(1),
        Importance.HIGH,
        doc="The segment size of the transactions topic.",
    ),
    Definition("transaction.two.phase.commit.enable", Type.BOOLEAN, False, None, Importance.LOW),
    Definition("transactional.id.expiration.ms", Type.INT, 604_800_000, Range(1), Importance.HIGH),
)
