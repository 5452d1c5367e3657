"""ListPartitionReassignments: the reassignments in progress, as known to the active controller."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.reassignments import list_partition_reassignments
from isthmus_broker.core.metadata.refusals import reassignments_not_listed
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(list_partition_reassignments, reassignments_not_listed)
handle = serve_by_controller
