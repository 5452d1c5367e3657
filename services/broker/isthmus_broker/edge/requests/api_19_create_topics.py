"""CreateTopics: each topic in whole or not at all; the answer tells its id and settings since 5 and 7."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import topics_not_created
from isthmus_broker.core.metadata.topics import create_topics
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(create_topics, topics_not_created)
handle = answer_by_controller
