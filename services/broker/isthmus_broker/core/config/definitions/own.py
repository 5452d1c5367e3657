"""Settings that Kafka does not have. They are shown only where they are set, so that a listing stays what Kafka's tools know."""

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
    Definition(
        HTTP_LISTEN,
        Type.STRING,
        "",
        None,
        Importance.LOW,
        doc="HOST:PORT where metrics and health are told over HTTP; nowhere when empty.",
        internal=True,
    ),
    Definition(
        SAMPLES_INTERVAL,
        Type.INT,
        0,
        Range(0),
        Importance.LOW,
        doc="How often a broker writes the lag of replicas to __isthmus_lag and its load to __isthmus_metrics; never when 0.",
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
