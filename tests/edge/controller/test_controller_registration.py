"""A controller registers again when the metadata log has no registration of its process, as in Kafka (ControllerRegistrationManager)."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from isthmus_broker.core.metadata.delta import Changes, changes_between
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage
from isthmus_broker.core.metadata.replay import replay_all
from isthmus_broker.core.metadata.schema import FeatureLevelRecord, RegisterControllerRecord
from isthmus_broker.edge.assembly.node import Node
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.controller.controller_registration import ControllerRegistration
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

from tests.edge.assembly.test_wall_clock import configs, services_of

DEADLINE_SECONDS: Final = 60
OWN: Final = UUID(int=1001)
REQUEST: Final = entity(
    ControllerRegistrationRequest,
    controller_id=1,
    incarnation_id=OWN,
    zk_migration_ready=False,
    listeners=(),
    features=(),
)
FINALISED: Final = replay_all(EMPTY_IMAGE, [FeatureLevelRecord(name="metadata.version", feature_level=30)])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def test_a_registration_replaced_by_that_of_an_earlier_process_is_made_again(tmp_path: Path) -> None:
    """A late request of the node's previous process took the place of the registration, and remained there for good."""

    async def test() -> None:
        node = Node(configs(tmp_path)[0])
        async with asyncio.timeout(DEADLINE_SECONDS):
            await node.start()
        services = services_of(node)
        await until(lambda: 1 in services.image.controllers)
        own = services.image.controllers[1]
        earlier = entity(
            ControllerRegistrationRequest,
            controller_id=1,
            incarnation_id=UUID(int=2002),
            zk_migration_ready=False,
            listeners=(),
            features=(),
        )
        await services.controller.send(earlier)
        await until(lambda: services.image.controllers[1] == own)
        await node.stop()

    asyncio.run(test())


class Channel:
    """The active controller: it accepts or refuses registrations, or is unreachable."""

    def __init__(self, *outcomes: ErrorCode | ControllerUnreachable) -> None:
        self._outcomes = list(outcomes)
        self.requests: list[Any] = []

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        outcome = self._outcomes.pop(0) if self._outcomes else ErrorCode.none
        if isinstance(outcome, Exception):
            raise outcome
        return entity(ControllerRegistrationResponse, throttle_time=NO_THROTTLE, error_code=outcome, error_message=None)


def registered(image: ClusterImage, incarnation_id: UUID) -> ClusterImage:
    record = RegisterControllerRecord(
        controller_id=1, incarnation_id=incarnation_id, zk_migration_ready=False, endpoints=(), features=()
    )
    return replay_all(image, [record])


async def settle() -> None:
    """Let the task run as far as it can without a pause."""
    for _ in range(10):
        await asyncio.sleep(0)


def requests_after(images: Sequence[ClusterImage], *outcomes: ErrorCode | ControllerUnreachable) -> list[int]:
    """The number of requests sent after each image."""
    counts = []

    async def test() -> None:
        channel = Channel(*outcomes)
        registration = ControllerRegistration(REQUEST, cast(ControllerChannel, channel))
        task = asyncio.create_task(registration.run())
        before = EMPTY_IMAGE
        for image in images:
            changes: Changes = changes_between(before, image)
            registration.metadata_changed(changes)
            await settle()
            counts.append(len(channel.requests))
            before = image
        task.cancel()

    asyncio.run(test())
    return counts


def test_it_registers_once_the_cluster_has_features_and_then_only_when_another_registration_appears() -> None:
    own, other = registered(FINALISED, OWN), registered(FINALISED, UUID(int=7))
    assert requests_after([EMPTY_IMAGE, FINALISED, own, own, other, own, FINALISED]) == [0, 1, 1, 1, 2, 2, 3]


def test_a_failed_registration_is_repeated() -> None:
    async def test() -> None:
        channel = Channel(ControllerUnreachable("no leader"), ErrorCode.not_controller)
        registration = ControllerRegistration(REQUEST, cast(ControllerChannel, channel))
        task = asyncio.create_task(registration.run())
        registration.metadata_changed(changes_between(EMPTY_IMAGE, FINALISED))
        await until(lambda: len(channel.requests) == 3)
        task.cancel()

    asyncio.run(test())
