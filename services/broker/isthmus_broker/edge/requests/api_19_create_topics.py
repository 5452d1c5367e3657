"""CreateTopics: each topic is created completely or not at all; the response has its id since 7 and its settings since 5."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import topics_not_created
from isthmus_broker.core.metadata.topics import create_topics
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(create_topics, topics_not_created)
handle = serve_by_controller
