"""The parts of a node that its metrics read."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from isthmus_model.clocks import WallClock

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.edge.controller.metadata_quorum import Quorum
from isthmus_broker.edge.coordinators.counts import GroupCounts, TransactionCounts
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.storage.cleaner import Uncleanable
from isthmus_broker.edge.transport.listener import Listener

if TYPE_CHECKING:
    from isthmus_broker.edge.tier.counts import TierCounts


class NodeView(NamedTuple):
    """Live objects, read at each scrape.

    `replicas`, `transactions` and `groups` are None on a node that is only a controller, `tier` on one without tiered storage.
    """

    node_id: int
    quorum: Quorum
    listeners: Sequence[Listener]
    served: Callable[[], Counter[int]]
    image: Callable[[], ClusterImage]
    replicas: ReplicaManager | None
    uncleanable: Callable[[], Mapping[Path, Uncleanable]]
    transactions: Callable[[], TransactionCounts] | None
    groups: Callable[[], GroupCounts] | None
    tier: "TierCounts | None"
    wall_clock: WallClock
    transaction_max_timeout_ms: int
