"""The parts of the node that API handlers may use, created by `node` and passed to every handler."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from isthmus_model.clocks import Clocks

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.image import Broker, ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.core.metadata.schema import BrokerEndpoint
from isthmus_broker.core.security.authorizer import Authorizer
from isthmus_broker.edge.controller.controller_channel import ControllerChannel
from isthmus_broker.edge.controller.streams_topics import StreamsTopics
from isthmus_broker.edge.controller.topic_creation import TopicCreation

if TYPE_CHECKING:  # a node that is only a controller has none of these
    from isthmus_broker.core.group.view import ClusterView
    from isthmus_broker.core.replica.fetch_session import FetchSessions
    from isthmus_broker.edge.controller.metadata_quorum import Quorum
    from isthmus_broker.edge.controller.producer_ids import ProducerIds
    from isthmus_broker.edge.coordinators.host import CoordinatorHost
    from isthmus_broker.edge.coordinators.marker_writer import MarkerWriter
    from isthmus_broker.edge.coordinators.transactions import Transactions
    from isthmus_broker.edge.coordinators.verifier import Verifier
    from isthmus_broker.edge.replication.manager import ReplicaManager
    from isthmus_broker.edge.requests.recently_fenced import RecentlyFenced
    from isthmus_broker.edge.storage.log_manager import LogManager
    from isthmus_broker.edge.storage.log_mover import LogMover


@dataclass(slots=True)
class NodeServices:
    """The parts that every node has. `config`, `context`, `image` and `features_epoch` are replaced when the metadata changes."""

    cluster_id: str
    config: NodeConfig
    context: ControllerContext
    image: ClusterImage
    features_epoch: int
    quorum: "Quorum"
    controller: ControllerChannel
    authorizer: Authorizer
    clocks: Clocks


@dataclass(slots=True)
class Services(NodeServices):
    """The additional parts of a broker."""

    logs: "LogManager"
    mover: "LogMover"
    replicas: "ReplicaManager"
    recently_fenced: "RecentlyFenced"
    sessions: "FetchSessions"
    groups: "CoordinatorHost[ClusterView]"
    transactions: "Transactions"
    verifier: "Verifier"
    markers: "MarkerWriter"
    topics: TopicCreation
    streams_topics: StreamsTopics
    producer_ids: "ProducerIds"


def endpoint_of(broker: Broker | None, listener: str) -> BrokerEndpoint | None:
    """A broker's endpoint for clients that connected to a listener: the one of the same listener."""
    if broker is None or broker.fenced:
        return None
    return next((endpoint for endpoint in broker.endpoints if endpoint.name == listener), None)
