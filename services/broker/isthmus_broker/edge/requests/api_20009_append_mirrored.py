"""AppendMirrored, an Isthmus API: append a link's batches at the offsets that they have at the source.

An append names the log end offset it expects, so that a repeated one, or one from a worker that was replaced, changes nothing.
"""

from isthmus_wire.extensions.append_mirrored import PartitionAppend, decode_append_request
from isthmus_wire.extensions.mirrors import AppendMirroredResponse

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.replication.internal_appends import append_all
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Append at once, and respond when the records are committed."""
    body, now = decode_append_request(request.frame, request.header.size), node.clocks.monotonic()

    def append_to(partition: Partition, part: PartitionAppend) -> Refusal | None:
        return partition.append_mirrored(body.link_id, part, now)

    append_all(node.replicas, request, body.timeout_ms, body.topics, append_to, AppendMirroredResponse)
