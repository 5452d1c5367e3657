"""AlterPartitionReassignments: move partitions to other replicas, or cancel such moves."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.reassignments import alter_partition_reassignments
from isthmus_broker.core.metadata.refusals import reassignments_not_altered
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(alter_partition_reassignments, reassignments_not_altered)
handle = serve_by_controller
