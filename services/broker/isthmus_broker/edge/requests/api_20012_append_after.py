"""AppendAfter, an Isthmus API: append batches if the log still ends with the batch that the sender names."""

from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import AppendAfterResponse, Following, decode_after_request

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.replication.internal_appends import append_all
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Append at once, and respond when the records are committed."""
    (timeout_ms, topics), now = decode_after_request(request.frame, request.header.size), node.clocks.now()

    def append_to(partition: Partition, part: Following) -> Refusal | None:
        if partition.topic in INTERNAL_TOPICS:
            return Refusal(ErrorCode.invalid_topic_exception)
        return partition.append_after(part, now)

    append_all(node.replicas, request, timeout_ms, topics, append_to, AppendAfterResponse)
