"""UnregisterBroker: a broker is gone for good."""

from isthmus_broker.core.metadata.brokers import unregister_broker
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import broker_not_unregistered
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(unregister_broker, broker_not_unregistered)
handle = answer_by_controller
