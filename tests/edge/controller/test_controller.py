"""An active controller's responses from uncommitted records wait until these are committed."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import Result
from isthmus_broker.core.metadata.schema import FeatureLevelRecord, NoOpRecord
from isthmus_broker.edge.controller.controller import Controller, NotController, batch_of, records_of
from isthmus_broker.edge.controller.maintenance import ControllerMaintenance
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftStopped
from isthmus_client.clock import wall_ms

from tests.unit.metadata.cluster import Cluster

RECORDS = (FeatureLevelRecord(name="metadata.version", feature_level=1),)


class Raft:
    """A quorum that commits when the test says so."""

    def __init__(self) -> None:
        self.core = SimpleNamespace(is_leader=True, log_end=0)
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.batches: list[bytes] = []

    def append(self, batch: bytes, count: int) -> asyncio.Future[int]:
        self.core.log_end += count
        self.batches.append(batch)
        return self.done


def leading() -> Controller:
    controller = Controller(1, lambda _published: None, lambda _leads: None, wall_ms)
    controller.raft = cast(RaftDriver, Raft())
    controller.leader_changed(1, 1)
    return controller


def write(_image: ClusterImage) -> Result[str]:
    return Result(RECORDS, "written")


def read(image: ClusterImage) -> Result[int]:
    return Result((), image.feature("metadata.version"))


async def both(controller: Controller) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """A record that is not committed, and a response that depends on it."""
    loop = asyncio.get_running_loop()
    tasks = loop.create_task(controller.run(write)), loop.create_task(controller.run(read))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


def test_a_response_from_uncommitted_records_waits_for_their_commit() -> None:
    async def test() -> None:
        controller = leading()
        assert await controller.run(read) == 0
        writing, reading = await both(controller)
        controller.committed(batch_of(RECORDS, wall_ms()), 0, 0, 1)
        assert await reading == 1
        cast(Raft, controller.raft).done.set_result(0)
        assert await writing == "written"

    asyncio.run(test())


def test_there_is_no_response_from_records_that_were_lost() -> None:
    async def test() -> None:
        controller = leading()
        writing, reading = await both(controller)
        controller.leader_changed(2, 2)
        with pytest.raises(NotController):
            await reading
        writing.cancel()

    asyncio.run(test())


def test_other_requests_are_served_between_the_steps_of_a_decision() -> None:
    levels: list[int] = []

    def step(image: ClusterImage) -> Result[int]:
        levels.append(image.feature("f"))
        count = len(levels)
        return Result((FeatureLevelRecord(name="f", feature_level=count),), count, is_complete=count == 3)

    async def test() -> None:
        controller = leading()
        raft = cast(Raft, controller.raft)
        loop = asyncio.get_running_loop()
        task = loop.create_task(controller.run(step))
        await asyncio.sleep(0)
        other = loop.create_task(controller.run(write))
        await asyncio.sleep(0)
        assert (len(raft.batches), levels) == (2, [0])
        raft.done.set_result(0)
        assert (await task, await other) == (3, "written")
        assert (len(raft.batches), levels) == (4, [0, 1, 2])

    asyncio.run(test())


def test_a_change_is_not_decided_where_the_metadata_log_has_failed() -> None:
    """The disk is full: who waits for the change is served by the next active controller, and does not end with an unknown error."""

    async def test() -> None:
        controller = leading()
        writing, _ = await both(controller)
        cast(Raft, controller.raft).done.set_exception(RaftStopped())
        with pytest.raises(NotController, match="has failed"):
            await writing

    asyncio.run(test())


def test_an_idle_controller_appends_no_op_records_that_change_nothing() -> None:
    """Without them, old metadata cannot be distinguished from metadata that did not change."""

    async def test() -> None:
        controller = leading()
        raft = cast(Raft, controller.raft)
        raft.done.set_result(0)
        image, context = controller.history.latest, Cluster(metadata_max_idle_interval_ms="1").context
        maintenance = ControllerMaintenance(controller, lambda: context)
        maintenance.start()
        async with asyncio.timeout(60):
            while len(raft.batches) < 3:  # noqa: ASYNC110 - no callback at an append
                await asyncio.sleep(0.001)
        maintenance.stop()
        assert {type(record) for record in records_of(raft.batches)} == {NoOpRecord}
        assert controller.history.latest is image

    asyncio.run(test())
