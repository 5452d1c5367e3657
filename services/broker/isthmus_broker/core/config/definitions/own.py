"""Settings that Kafka does not have. They are shown only where they are set, so that a listing stays what Kafka's tools know."""

from __future__ import annotations

from isthmus_broker.core.config.constraints import CONSTRAINT_KEYS, DEFAULT_CONSTRAINT_KEYS, ConstraintsText
from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import Range
from isthmus_broker.core.config.values import Type

LEADER_PREFERENCE = "isthmus.leader.preference"
PLACEMENT_MOVES = "isthmus.placement.moves.max"

_PREFERENCE_DOC = "Regions in which partitions should be led, the best first."

OWN_TOPIC = (
    *(
        Definition(
            key,
            Type.STRING,
            "",
            ConstraintsText(),
            Importance.MEDIUM,
            doc="Where replicas and observers of each partition belong, as JSON.",
            internal=True,
        )
        for key in CONSTRAINT_KEYS
    ),
    Definition(LEADER_PREFERENCE, Type.LIST, (), None, Importance.LOW, doc=_PREFERENCE_DOC, internal=True),
)

OWN_BROKER = (
    *(
        Definition(
            key,
            Type.STRING,
            "",
            ConstraintsText(),
            Importance.MEDIUM,
            Change.CLUSTER_WIDE,
            doc="The placement constraints of topics that are created without a replication factor.",
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
        doc="Partitions that may be on their way to where their topic's placement constraints want them; 0 moves none.",
        internal=True,
    ),
)
