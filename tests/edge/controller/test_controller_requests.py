"""Requests that controllers serve differently from brokers: old AlterPartition, Envelope, and refusals by inactive controllers."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from isthmus_broker.core.security.authorizer import ALLOW_ALL, Authorizer
from isthmus_broker.core.security.principal import Principal
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.requests.controller_requests import forward
from isthmus_broker.edge.requests.table import (
    Side,
    handler_of,
)
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.headers import decode_request_header, decode_response_header, encode_request_header
from isthmus_wire.messages import NO_THROTTLE, decode_request, decode_response, encode_request, encode_response
from kio.schema.alter_partition.v2 import request as alter
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.describe_quorum.v2 import request as quorum
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse


class Active:
    """The active controller, or an inactive one."""

    def __init__(self, response: Any = None) -> None:
        self.is_ready = response is not None
        self.requests: list[Any] = []
        self._response = response

    async def decide(self, request: Any) -> Any:
        self.requests.append(request)
        if self._response is None:
            raise NotController
        return self._response


class Arrived:
    """A request on a controller's listener."""

    def __init__(self, api: ApiKey, version: int, body: bytes) -> None:
        self.frame = memoryview(encode_request_header(api, version, 7, "test") + body)
        self.header = decode_request_header(self.frame)
        self.connection = SimpleNamespace(listener_name="CONTROLLER")
        self.response: Any = None

    def decode(self) -> Any:
        return decode_request(self.header.api_key, self.header.api_version, bytes(self.frame), self.header.size)

    def respond(self, response: Any) -> None:
        self.response = response


def serve(active: Active, api: ApiKey, version: int, body: bytes, authorizer: Authorizer = ALLOW_ALL) -> Any:
    arrived = Arrived(api, version, body)
    listeners = SimpleNamespace(controller_names=("CONTROLLER",))
    config, node_quorum = SimpleNamespace(listeners=listeners), SimpleNamespace(active=active)
    node = SimpleNamespace(quorum=node_quorum, config=config, authorizer=authorizer)
    handler: Any = handler_of(api, Side.CONTROLLER)
    asyncio.run(handler(node, arrived))
    return arrived.response


def test_an_old_isr_has_replicas_of_any_epoch() -> None:
    partition = entity(
        alter.PartitionData,
        partition_index=3,
        leader_epoch=4,
        new_isr=(1, 2),
        leader_recovery_state=0,
        partition_epoch=5,
    )
    topic = entity(alter.TopicData, topic_id=UUID(int=9), partitions=(partition,))
    body = entity(alter.AlterPartitionRequest, broker_id=1, broker_epoch=6, topics=(topic,))
    active = Active(entity(AlterPartitionResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, topics=()))
    serve(active, ApiKey.ALTER_PARTITION, 2, encode_request(ApiKey.ALTER_PARTITION, 2, body))
    (decided,) = active.requests
    (part,) = decided.topics[0].partitions
    assert [(replica.broker_id, replica.broker_epoch) for replica in part.new_isr_with_epochs] == [(1, -1), (2, -1)]
    assert (part.partition_index, part.leader_epoch, part.partition_epoch) == (3, 4, 5)


UNREGISTER = entity(UnregisterBrokerRequest, broker_id=4)
UNREGISTERED = entity(
    UnregisterBrokerResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="as requested"
)


ALICE = b"\0\0" + b"\x05User" + b"\x06alice" + b"\0" + b"\0"


def envelope(inside: bytes, principal: bytes | None = ALICE) -> bytes:
    address = b"\x7f\0\0\1"
    body = entity(EnvelopeRequest, request_data=inside, request_principal=principal, client_host_address=address)
    return encode_request(ApiKey.ENVELOPE, 0, body)


def inner(api: ApiKey, version: int = 0) -> bytes:
    return encode_request_header(api, version, 99, "client") + encode_request(ApiKey.UNREGISTER_BROKER, 0, UNREGISTER)


def test_an_envelope_contains_the_response_with_its_header() -> None:
    active = Active(UNREGISTERED)
    response = serve(active, ApiKey.ENVELOPE, 0, envelope(inner(ApiKey.UNREGISTER_BROKER)))
    assert response.error_code is ErrorCode.none
    correlation, start = decode_response_header(response.response_data, ApiKey.UNREGISTER_BROKER, 0)
    assert correlation == 99
    assert decode_response(ApiKey.UNREGISTER_BROKER, 0, response.response_data, start) == UNREGISTERED
    assert active.requests == [UNREGISTER]
    body = encode_response(ApiKey.UNREGISTER_BROKER, 0, UNREGISTERED)
    assert response.response_data.endswith(body)


def test_envelopes_that_are_not_opened() -> None:
    for inside in (b"", b"\0\1", inner(ApiKey.FETCH, 4), inner(ApiKey.UNREGISTER_BROKER, 9), inner(ApiKey.VOTE)):
        active = Active(UNREGISTERED)
        assert serve(active, ApiKey.ENVELOPE, 0, envelope(inside)).error_code is ErrorCode.invalid_request
        assert active.requests == []
    closed = serve(Active(), ApiKey.ENVELOPE, 0, envelope(inner(ApiKey.UNREGISTER_BROKER)))
    assert closed.error_code is ErrorCode.not_controller


def test_an_envelope_is_authorized_for_the_principal_inside() -> None:
    attempts: list[tuple[Principal, str, ApiKey]] = []

    class DenyAll:
        def allows(self, principal: Principal, host: str, api: ApiKey) -> bool:
            attempts.append((principal, host, api))
            return False

    active = Active(UNREGISTERED)
    response = serve(active, ApiKey.ENVELOPE, 0, envelope(inner(ApiKey.UNREGISTER_BROKER)), DenyAll())
    _, start = decode_response_header(response.response_data, ApiKey.UNREGISTER_BROKER, 0)
    refused = decode_response(ApiKey.UNREGISTER_BROKER, 0, response.response_data, start)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert attempts == [(Principal("User", "alice"), "127.0.0.1", ApiKey.UNREGISTER_BROKER)]
    assert active.requests == []


def test_an_envelope_without_a_readable_principal_is_refused() -> None:
    for principal in (None, b"", b"\0\1" + ALICE[2:], ALICE[:5]):
        active = Active(UNREGISTERED)
        response = serve(active, ApiKey.ENVELOPE, 0, envelope(inner(ApiKey.UNREGISTER_BROKER), principal))
        assert response.error_code is ErrorCode.principal_deserialization_failure
        assert active.requests == []


def test_another_controller_says_that_it_is_not_the_active_one() -> None:
    body = encode_request(ApiKey.UNREGISTER_BROKER, 0, UNREGISTER)
    assert serve(Active(), ApiKey.UNREGISTER_BROKER, 0, body).error_code is ErrorCode.not_controller
    topic = entity(
        quorum.TopicData,
        topic_name="__cluster_metadata",
        partitions=(entity(quorum.PartitionData, partition_index=0),),
    )
    body = encode_request(ApiKey.DESCRIBE_QUORUM, 2, entity(quorum.DescribeQuorumRequest, topics=(topic,)))
    response = serve(Active(), ApiKey.DESCRIBE_QUORUM, 2, body)
    assert response.topics[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


def test_a_broker_without_a_controller_refuses_every_request() -> None:
    class Unreachable:
        async def send(self, _: Any) -> Any:
            raise ControllerUnreachable("nobody")

    node: Any = SimpleNamespace(controller=Unreachable())
    topic = entity(
        quorum.TopicData,
        topic_name="__cluster_metadata",
        partitions=(entity(quorum.PartitionData, partition_index=0),),
    )
    described = asyncio.run(forward(node, entity(quorum.DescribeQuorumRequest, topics=(topic,))))
    assert described.topics[0].partitions[0].error_code is ErrorCode.request_timed_out
    gone = asyncio.run(forward(node, entity(UnregisterBrokerRequest, broker_id=1)))
    assert gone.error_code is ErrorCode.request_timed_out
