"""DeleteTopics: by name, and since 6 by id as well."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import topics_not_deleted
from isthmus_broker.core.metadata.topics import delete_topics
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(delete_topics, topics_not_deleted)
handle = serve_by_controller
