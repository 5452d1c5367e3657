"""AllocateProducerIds: a block of producer ids for a broker to assign."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.producer_ids import allocate_producer_ids
from isthmus_broker.core.metadata.refusals import producer_ids_not_allocated
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(allocate_producer_ids, producer_ids_not_allocated)
handle = serve_by_controller
