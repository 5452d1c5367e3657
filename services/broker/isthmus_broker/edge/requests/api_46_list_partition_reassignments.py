"""ListPartitionReassignments: what is on its way, as the active controller has it."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.reassignments import list_partition_reassignments
from isthmus_broker.core.metadata.refusals import reassignments_not_listed
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(list_partition_reassignments, reassignments_not_listed)
handle = answer_by_controller
