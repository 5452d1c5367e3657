"""AlterLink, an Isthmus API: change the settings of a link."""

from isthmus_broker.core.metadata.link_refusals import link_not_altered
from isthmus_broker.core.metadata.link_requests import alter_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(alter_link, link_not_altered)
handle = serve_by_controller
