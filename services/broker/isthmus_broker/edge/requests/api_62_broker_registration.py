"""BrokerRegistration: register a broker's process and assign its epoch."""

from isthmus_broker.core.metadata.brokers import register_broker
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import broker_not_registered
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(register_broker, broker_not_registered)
handle = serve_by_controller
