"""UpdateFeatures: raise or lower the levels of features, all of them or none."""

from isthmus_broker.core.metadata.features import update_features
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import features_not_updated
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(update_features, features_not_updated)
handle = serve_by_controller
