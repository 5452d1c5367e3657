"""DeleteLink, an Isthmus API: delete a link. With force it stops the mirror topics that the link still copies."""

from isthmus_broker.core.metadata.link_refusals import link_not_deleted
from isthmus_broker.core.metadata.link_requests import delete_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(delete_link, link_not_deleted)
handle = serve_by_controller
