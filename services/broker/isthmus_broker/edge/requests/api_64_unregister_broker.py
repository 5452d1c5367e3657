"""UnregisterBroker: remove a broker permanently."""

from isthmus_broker.core.metadata.brokers import unregister_broker
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import broker_not_unregistered
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(unregister_broker, broker_not_unregistered)
handle = serve_by_controller
