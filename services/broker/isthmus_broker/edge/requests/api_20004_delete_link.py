"""DeleteLink, an API of our own: the end of a link, and with force of what it still copies."""

from isthmus_broker.core.metadata.link_refusals import link_not_deleted
from isthmus_broker.core.metadata.link_requests import delete_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(delete_link, link_not_deleted)
handle = answer_by_controller
