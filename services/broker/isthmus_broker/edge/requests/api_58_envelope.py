"""Envelope, version 0: a broker passes on a request of one of its clients, as it came (KIP-590).

Apache Kafka's brokers do so; Isthmus' own ask the controller themselves. The answer is that of the request inside, with its header.
"""

from typing import Final

from isthmus_wire.apis import CONTROLLER_VERSIONS, ApiKey
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.headers import FRAME_LENGTH, decode_request_header, encode_response_prefix
from isthmus_wire.messages import decode_request, encode_response
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse

from isthmus_broker.edge.requests.ask_controller import decide_here
from isthmus_broker.edge.requests.registry import handles
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What a broker may pass on: what it would ask the controller itself."""


@handles(ApiKey.ENVELOPE)
async def envelope(node: NodeServices, request: Request) -> None:
    """Every node may do everything so far, so the principal inside is not looked at."""
    asked: EnvelopeRequest = request.decode()
    if not node.quorum.active.is_ready:
        request.respond(EnvelopeResponse(error_code=ErrorCode.not_controller))
        return
    try:
        data = await _answer(node, asked.request_data)
    except DecodeError:
        request.respond(EnvelopeResponse(error_code=ErrorCode.invalid_request))
        return
    request.respond(EnvelopeResponse(response_data=data, error_code=ErrorCode.none))


async def _answer(node: NodeServices, data: bytes) -> bytes:
    header = decode_request_header(data)
    key, version = header.api_key, header.api_version
    if key not in FORWARDABLE:
        raise DecodeError(f"API key {key} is not passed on")
    lowest, highest = CONTROLLER_VERSIONS[ApiKey(key)]
    if not lowest <= version <= highest:
        raise DecodeError(f"{ApiKey(key).name} version {version} is not served")
    response = await decide_here(node, decode_request(key, version, data, header.size))
    body = encode_response(key, version, response)
    return encode_response_prefix(key, version, header.correlation_id, len(body))[FRAME_LENGTH.size :] + body
