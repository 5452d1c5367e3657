"""ControllerRegistration: register a controller's endpoints and supported features (KIP-919)."""

from isthmus_broker.core.metadata.brokers import register_controller
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import controller_not_registered
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(register_controller, controller_not_registered)
handle = serve_by_controller
