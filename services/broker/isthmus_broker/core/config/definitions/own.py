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

OWN_BROKER = (
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
