"""Isthmus settings that Kafka does not have. They are listed only where they are set, so that Kafka's tools see what they expect."""

from __future__ import annotations

from isthmus_model.constraints import CONSTRAINT_KEYS

from isthmus_broker.core.config.constraints import DEFAULT_CONSTRAINT_KEYS, ConstraintsText
from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import Type

LEADER_PREFERENCE = "isthmus.leader.preference"
PLACEMENT_MOVES = "isthmus.placement.moves.max"
HTTP_LISTEN = "isthmus.http.listen"
SAMPLES_INTERVAL = "isthmus.samples.interval.ms"
REMOTE_STORE = "isthmus.remote.store"
REMOTE_STORE_ENDPOINT = "isthmus.remote.store.endpoint"
REMOTE_STORE_COMPRESSION = "isthmus.remote.store.compression.enable"
REMOTE_STORE_KEYS = "isthmus.remote.store.keys.path"
_METADATA_TOPIC = "rlmm.config.remote.log.metadata.topic"
METADATA_PARTITIONS = f"{_METADATA_TOPIC}.num.partitions"
METADATA_REPLICATION = f"{_METADATA_TOPIC}.replication.factor"
METADATA_RETENTION = f"{_METADATA_TOPIC}.retention.ms"
METADATA_MIN_ISR = f"{_METADATA_TOPIC}.min.isr"

_PREFERENCE_DOC = "The preferred regions for leaders, most preferred first."

OWN_TOPIC = (
    *(
        Definition(
            key,
            Type.STRING,
            "",
            ConstraintsText(),
            Importance.MEDIUM,
            doc="The placement of replicas and observers of each partition, as JSON.",
            internal=True,
        )
        for key in CONSTRAINT_KEYS
    ),
    Definition(LEADER_PREFERENCE, Type.LIST, (), None, Importance.LOW, doc=_PREFERENCE_DOC, internal=True),
)

_TIER = (
    Definition(
        REMOTE_STORE,
        Type.STRING,
        "",
        None,
        Importance.MEDIUM,
        doc="The object store of tiered storage: file:///DIR, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.",
        internal=True,
    ),
    Definition(
        REMOTE_STORE_ENDPOINT,
        Type.STRING,
        "",
        None,
        Importance.LOW,
        doc="The URL of another server with the API of the store; empty for Amazon's or Google's.",
        internal=True,
    ),
    Definition(
        REMOTE_STORE_COMPRESSION,
        Type.BOOLEAN,
        False,
        None,
        Importance.LOW,
        doc="Whether objects are compressed (zstd), beyond what producers have compressed.",
        internal=True,
    ),
    Definition(
        REMOTE_STORE_KEYS,
        Type.STRING,
        "",
        None,
        Importance.LOW,
        doc="The file of the keys with which objects are encrypted; empty for no encryption.",
        internal=True,
    ),
    # Kafka passes these on to the plugin that keeps the metadata of the tier.
    Definition(METADATA_PARTITIONS, Type.INT, 50, Range(1), Importance.LOW, internal=True),
    Definition(METADATA_REPLICATION, Type.SHORT, 3, Range(1), Importance.LOW, internal=True),
    Definition(METADATA_RETENTION, Type.LONG, -1, Range(-1), Importance.LOW, internal=True),
    Definition(METADATA_MIN_ISR, Type.SHORT, 2, Range(1), Importance.LOW, internal=True),
)

OWN_BROKER = (
    *_TIER,
    Definition(
        HTTP_LISTEN,
        Type.STRING,
        "",
        None,
        Importance.LOW,
        doc="The HOST:PORT of the HTTP endpoint for metrics and health; empty to disable it.",
        internal=True,
    ),
    Definition(
        SAMPLES_INTERVAL,
        Type.INT,
        0,
        Range(0),
        Importance.LOW,
        doc="The interval at which a broker writes replica lag to __isthmus_lag and its load to __isthmus_metrics; 0 disables it.",
        internal=True,
    ),
    *(
        Definition(
            key,
            Type.STRING,
            "",
            ConstraintsText(),
            Importance.MEDIUM,
            Change.CLUSTER_WIDE,
            doc="Placement constraints for topics that are created without a replication factor.",
            internal=True,
        )
        for key in DEFAULT_CONSTRAINT_KEYS
    ),
    Definition(
        LEADER_PREFERENCE,
        Type.LIST,
        (),
        None,
        Importance.LOW,
        Change.CLUSTER_WIDE,
        doc=_PREFERENCE_DOC,
        internal=True,
    ),
    Definition(
        PLACEMENT_MOVES,
        Type.INT,
        20,
        Range(0),
        Importance.LOW,
        Change.CLUSTER_WIDE,
        doc="The maximum number of partitions that are reassigned at a time to satisfy placement constraints; 0 disables reassignments.",
        internal=True,
    ),
)
