"""RaiseLeaderEpochs, an Isthmus API: keep the leader epochs of mirror topics above the source's."""

from isthmus_broker.core.metadata.link_refusals import leader_epochs_not_raised
from isthmus_broker.core.metadata.mirror_requests import raise_leader_epochs
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(raise_leader_epochs, leader_epochs_not_raised)
handle = serve_by_controller
