"""Envelope: a broker forwards a client's request unchanged (KIP-590).

Apache Kafka's brokers do so; Isthmus' own send the controller a request of their own. The response contains the inner request's response,
with its header.
"""

from ipaddress import ip_address

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.extensions import FIRST_OWN_KEY
from isthmus_wire.headers import FRAME_LENGTH, decode_request_header, encode_response_prefix
from isthmus_wire.messages import decode_request, encode_response
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse

from isthmus_broker.edge.requests.controller_requests import decide_here, refusal
from isthmus_broker.edge.requests.principal_data import PrincipalMalformed, decode_principal
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import TABLE, ServedBy, Side, served
from isthmus_broker.edge.transport.connection import Request


async def handle(node: NodeServices, request: Request) -> None:
    """Process the inner request on behalf of its own principal."""
    envelope: EnvelopeRequest = request.decode()
    if not node.quorum.active.is_ready:
        request.respond(EnvelopeResponse(error_code=ErrorCode.not_controller))
        return
    try:
        data = await _response(node, envelope)
    except PrincipalMalformed:
        request.respond(EnvelopeResponse(error_code=ErrorCode.principal_deserialization_failure))
        return
    except (DecodeError, ValueError):
        request.respond(EnvelopeResponse(error_code=ErrorCode.invalid_request))
        return
    request.respond(EnvelopeResponse(response_data=data, error_code=ErrorCode.none))


def is_forwardable(key: int) -> bool:
    """Whether Kafka's brokers may forward a request: those that are for the active controller."""
    api = TABLE.get(key)
    forwarded = api is not None and api.served_by is ServedBy.CONTROLLER and api.brokers is not None
    return forwarded and key < FIRST_OWN_KEY


async def _response(node: NodeServices, envelope: EnvelopeRequest) -> bytes:
    """The inner response with its header; raises PrincipalMalformed, DecodeError, or ValueError for an invalid host."""
    data = envelope.request_data
    header = decode_request_header(data)
    key, version = header.api_key, header.api_version
    if not is_forwardable(key):
        raise DecodeError(f"API key {key} may not be forwarded")
    principal, host = decode_principal(envelope.request_principal), str(ip_address(envelope.client_host_address))
    lowest, highest = served(Side.CONTROLLER)[key]
    if not lowest <= version <= highest:
        raise DecodeError(f"{ApiKey(key).name} version {version} is not served")
    body = decode_request(key, version, data, header.size)
    allowed = node.authorizer.allows(principal, host, ApiKey(key))
    response = await decide_here(node, body) if allowed else refusal(body, ErrorCode.cluster_authorization_failed)
    encoded = encode_response(key, version, response)
    return encode_response_prefix(key, version, header.correlation_id, len(encoded))[FRAME_LENGTH.size :] + encoded
