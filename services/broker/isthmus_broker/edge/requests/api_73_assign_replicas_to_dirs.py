"""AssignReplicasToDirs: a broker reports which of its directories contain which replicas (KIP-858)."""

from isthmus_broker.core.metadata.directories import assign_replicas_to_dirs
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import replicas_not_assigned
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(assign_replicas_to_dirs, replicas_not_assigned)
handle = serve_by_controller
