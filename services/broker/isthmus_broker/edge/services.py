"""What the API handlers may use of the node: its parts, made by `node` and handed to every handler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.replica.fetch_session import FetchSessions
from isthmus_broker.edge.disk.log_manager import LogManager
from isthmus_broker.edge.disk.log_mover import LogMover
from isthmus_broker.edge.replica.manager import ReplicaManager

OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})


class Feature(NamedTuple):
    """A feature that this software supports, and the level the cluster agreed on."""

    name: str
    lowest: int
    highest: int
    level: int


@dataclass(slots=True)
class Services:
    """One node's parts."""

    cluster_id: str
    config: NodeConfig
    logs: LogManager
    mover: LogMover
    replicas: ReplicaManager
    sessions: FetchSessions
    image: ClusterImage
    features: Callable[[], Sequence[Feature]]
    features_epoch: Callable[[], int]
