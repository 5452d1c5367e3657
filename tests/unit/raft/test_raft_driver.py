"""Raft replicas on real files: a quorum of one, and three nodes connected within the process."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.messages import Request, Response
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId, Voter, VoterSet
from isthmus_broker.edge.quorum.quorum_state import QUORUM_STATE
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftRefused, RaftSetting, RaftStopped
from isthmus_broker.edge.quorum.raft_records import RaftRecords
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_client.clock import monotonic_ms
from isthmus_model.clocks import WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch, header_at, iterate_records

from tests.unit.raft.bench import voter, voter_set
from tests.unit.raft.file_log import FileLog


def batch(*values: str) -> bytes:
    return build_batch([NewRecord(None, value.encode(), 1_000) for value in values])


class Values:
    """A state machine that records every value."""

    def __init__(self, changed: asyncio.Event) -> None:
        self.values: list[str] = []
        self.leaders: list[tuple[int, int | None]] = []
        self.loaded: list[SnapshotId] = []
        self.changed = changed

    def committed(self, batch: bytes, base_offset: int, last_offset: int, epoch: int) -> None:
        header = header_at(batch)
        assert (header.base_offset, header.last_offset, header.leader_epoch) == (base_offset, last_offset, epoch)
        self._apply(batch)
        self.changed.set()

    def _apply(self, batch: bytes) -> None:
        if not header_at(batch).is_control:
            self.values += [(record.value or b"").decode() for record in iterate_records(batch)]

    def load_snapshot(self, snapshot: SnapshotId, batches: Iterator[bytes]) -> None:
        self.values = []
        for each in batches:
            self._apply(each)
        self.loaded.append(snapshot)
        self.changed.set()

    def snapshot(self, snapshot: SnapshotId) -> Iterable[bytes]:
        return [batch(value) for value in self.values]

    def leader_changed(self, epoch: int, leader_id: int | None) -> None:
        self.leaders.append((epoch, leader_id))
        self.changed.set()


class InProcess:
    """Peers connected by calls; a node that does not exist refuses."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.changed = asyncio.Event()

    def sender(self, node_id: int) -> "InProcessPeers":
        return InProcessPeers(self, node_id)


class InProcessPeers:
    def __init__(self, net: InProcess, node_id: int) -> None:
        self._net = net
        self._node_id = node_id

    def send(self, peer: int, request_id: int, request: Request) -> None:
        asyncio.get_running_loop().call_soon(self._deliver, peer, request_id, request)

    def _deliver(self, peer: int, request_id: int, request: Request) -> None:
        own, other = self._net.nodes.get(self._node_id), self._net.nodes.get(peer)
        if own is None:
            return
        if other is None:
            own.driver.failed(peer, request_id)
            return
        other.driver.handle(request).add_done_callback(lambda response: self._respond(peer, request_id, response))

    def _respond(self, peer: int, request_id: int, response: "asyncio.Future[Response]") -> None:
        own = self._net.nodes.get(self._node_id)
        error = response.exception()
        if own is None:
            return
        if error is not None:
            own.driver.failed(peer, request_id)
        else:
            own.driver.responded(peer, request_id, response.result())


async def until(changed: asyncio.Event, done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():
            changed.clear()
            await changed.wait()


class Node:
    def __init__(self, directory: Path, config: RaftConfig, executor: Executor | None, net: InProcess | None) -> None:
        self.id = config.node_id
        self.changed = net.changed if net is not None else asyncio.Event()
        self.log = FileLog(directory / "log")
        self.log.on_raised = self.changed.set
        self.machine = Values(self.changed)
        self.faults: list[BaseException] = []
        self.driver = RaftDriver(
            RaftSetting(
                config=config,
                files=SYSTEM,
                directory=directory,
                log=self.log,
                state_machine=self.machine,
                peers=(net or InProcess()).sender(config.node_id),
                clock=monotonic_ms,
                wall_clock=lambda: WallMs(1_700_000_000_000),
                executor=executor,
                on_fault=self._fault,
            )
        )

    def _fault(self, error: BaseException) -> None:
        self.faults.append(error)
        self.changed.set()

    @property
    def is_active(self) -> bool:
        """Whether the node leads and has received everything committed before."""
        return self.driver.core.is_leader and self.machine.leaders[-1] == (self.driver.core.epoch, self.id)

    async def stop(self) -> None:
        await self.driver.stop()
        self.log.close()


def format_directory(directory: Path, voters: VoterSet) -> None:
    """The state that `kafka-storage format` writes for a voter of a dynamic quorum."""
    directory.mkdir(exist_ok=True)
    records = RaftRecords(lambda: WallMs(5))
    SnapshotFiles(SYSTEM, directory).write(
        SnapshotId(0, 0), records.snapshot_header(5, voters), (), records.snapshot_footer()
    )


@pytest.fixture(params=["inline", "threaded"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "inline":
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool


def alone(directory: Path, executor: Executor | None, **settings: Any) -> Node:
    node = Node(directory, RaftConfig(local=voter(1), **settings), executor, None)
    node.driver.start()
    return node


def test_a_quorum_of_one_leads_at_once_and_remembers(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        format_directory(tmp_path, voter_set(1))
        node = alone(tmp_path, executor)
        assert node.driver.core.is_leader
        appends = node.driver.append(batch("a", "b"), 2), node.driver.append(batch("c"), 1)
        assert [await append for append in appends] == [3, 5]
        assert node.machine.values == ["a", "b", "c"]
        assert node.machine.leaders == [(0, None), (1, None), (1, 1)]
        info = node.driver.describe()
        assert info is not None
        assert (info.high_watermark, info.voters[0].last_fetch_ms) == (6, 1_700_000_000_000)
        await node.stop()
        state = (
            '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
        )
        assert (tmp_path / QUORUM_STATE).read_text() == state

        again = alone(tmp_path, executor)
        assert await again.driver.append(batch("d"), 1) == 7
        assert again.machine.values == ["a", "b", "c", "d"]
        assert again.driver.core.epoch == 2
        await again.stop()

    asyncio.run(run())


def test_static_voters_need_no_formatting(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        static = VoterSet((Voter(voter(1).key),))
        node = alone(tmp_path, executor, static_voters=static)
        assert await node.driver.append(batch("a"), 1) == 1
        await node.stop()
        assert '"currentVoters":[{"voterId":1}],"data_version":0}' in (tmp_path / QUORUM_STATE).read_text()

    asyncio.run(run())


def test_static_voters_are_ignored_once_the_log_has_voters(tmp_path: Path, executor: Executor | None) -> None:
    """The settings of an upgraded or dynamic quorum may still name its first voters."""

    async def run() -> None:
        format_directory(tmp_path, voter_set(1))
        settings = VoterSet((Voter(ReplicaKey(1)), Voter(ReplicaKey(2))))
        node = alone(tmp_path, executor, static_voters=settings)
        assert node.driver.core.voters == voter_set(1)
        assert await node.driver.append(batch("a"), 1) == 3
        await node.stop()
        assert '"data_version":1}' in (tmp_path / QUORUM_STATE).read_text()

    asyncio.run(run())


def test_an_upgraded_quorum_restarts_with_the_voters_of_its_log(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        static = VoterSet((Voter(ReplicaKey(1)),))
        node = alone(tmp_path, executor, static_voters=static)
        await node.driver.append(batch("a"), 1)
        assert await node.driver.upgrade_kraft_version() == 4
        assert node.driver.core.voters == voter_set(1)
        await node.stop()
        again = alone(tmp_path, executor, static_voters=VoterSet((Voter(ReplicaKey(7)),)))
        assert again.driver.core.voters == voter_set(1)
        assert await again.driver.append(batch("b"), 1) == 5
        await again.stop()
        assert '"data_version":1}' in (tmp_path / QUORUM_STATE).read_text()

    asyncio.run(run())


def test_a_snapshot_takes_the_place_of_the_log_before_it(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        format_directory(tmp_path, voter_set(1))
        node = alone(tmp_path, executor, snapshot_after_bytes=300, snapshots_kept=1)
        for number in range(20):
            await node.driver.append(batch(f"value {number}"), 1)
        await until(node.changed, lambda: node.log.start_offset > 0)
        await node.stop()
        taken = SnapshotFiles(SYSTEM, tmp_path).complete()[-1]
        assert taken.end_offset > 3
        assert node.log.start_offset > 0

        again = alone(tmp_path, executor)
        assert again.machine.loaded == [taken]
        await again.driver.append(batch("last"), 1)
        assert again.machine.values == [*(f"value {number}" for number in range(20)), "last"]
        await again.stop()

    asyncio.run(run())


def test_a_failing_disk_ends_the_replica_and_nothing_is_acknowledged(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        format_directory(tmp_path, voter_set(1))
        node = alone(tmp_path, executor)
        await node.driver.append(batch("a"), 1)
        node.log.failure = OSError(28, "No space left on device")
        with pytest.raises(RaftStopped):
            await node.driver.append(batch("b"), 1)
        assert node.faults == [node.log.failure]
        assert node.machine.values == ["a"]
        with pytest.raises(RaftStopped):
            await node.driver.append(batch("c"), 1)
        await node.stop()

    asyncio.run(run())


# Three nodes


class Cluster:
    """Nodes 1 to 3 are voters. Times are short; every wait is for a condition."""

    def __init__(self, directory: Path, executor: Executor | None, **settings: Any) -> None:
        self._directory = directory
        self._executor = executor
        self._settings = settings
        self._net = InProcess()

    def start(self, node_id: int) -> Node:
        directory = self._directory / f"node-{node_id}"
        if not directory.exists():
            format_directory(directory, voter_set(1, 2, 3))
        config = RaftConfig(
            local=voter(node_id),
            bootstrap=(1, 2, 3),
            election_timeout_ms=100,
            fetch_timeout_ms=300,
            fetch_wait_max_ms=50,
            request_timeout_ms=200,
            **self._settings,
        )
        node = self._net.nodes[node_id] = Node(directory, config, self._executor, self._net)
        node.driver.start()
        return node

    async def stop(self, node: Node) -> None:
        del self._net.nodes[node.id]
        await node.stop()

    async def stop_all(self) -> None:
        for node in list(self._net.nodes.values()):
            await self.stop(node)

    async def leader(self) -> Node:
        await self.until(lambda: any(node.is_active for node in self._net.nodes.values()))
        return next(node for node in self._net.nodes.values() if node.is_active)

    async def until(self, done: Callable[[], bool]) -> None:
        await until(self._net.changed, done)

    async def append(self, value: str) -> None:
        """Append to the current leader. A refusal for lost leadership is retried, so that a value may be appended twice."""
        while True:
            try:
                await (await self.leader()).driver.append(batch(value), 1)
            except (RaftRefused, RaftStopped):
                continue
            return

    async def until_all_have(self, *values: str) -> None:
        await self.until(lambda: all(set(values) <= set(node.machine.values) for node in self._net.nodes.values()))


def test_three_nodes_elect_replicate_and_outlive_their_leader(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        cluster = Cluster(tmp_path, executor)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        await cluster.append("a")
        await cluster.until_all_have("a")

        leader = await cluster.leader()
        epoch = leader.driver.core.epoch
        await cluster.stop(leader)
        await cluster.append("b")
        assert (await cluster.leader()).driver.core.epoch > epoch
        cluster.start(leader.id)
        await cluster.until_all_have("a", "b")
        await cluster.stop_all()

    asyncio.run(run())


def test_an_observer_catches_up_by_a_snapshot_and_becomes_a_voter(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        cluster = Cluster(tmp_path, executor, snapshot_after_bytes=300, snapshots_kept=1, snapshot_chunk_bytes_max=100)
        for node_id in (1, 2, 3):
            cluster.start(node_id)
        values = [f"value {number}" for number in range(20)]
        for value in values:
            await cluster.append(value)
        leader = await cluster.leader()
        await cluster.until(lambda: leader.log.start_offset > 0)
        (tmp_path / "node-4").mkdir()
        observer = cluster.start(4)
        await cluster.until_all_have(*values)
        assert observer.machine.loaded

        while True:
            try:
                await (await cluster.leader()).driver.add_voter(voter(4))
                break
            except (RaftRefused, RaftStopped):
                await cluster.append("again")
        assert (await cluster.leader()).driver.core.voters == voter_set(1, 2, 3, 4)
        await cluster.stop_all()

    asyncio.run(run())


def test_a_follower_refuses_appends(tmp_path: Path, executor: Executor | None) -> None:
    async def run() -> None:
        cluster = Cluster(tmp_path, executor)
        nodes = [cluster.start(node_id) for node_id in (1, 2, 3)]
        leader = await cluster.leader()
        follower = next(node for node in nodes if node is not leader)
        with pytest.raises(RaftRefused) as refused:
            await follower.driver.append(batch("a"), 1)
        assert refused.value.error == ErrorCode.not_leader_or_follower
        await cluster.stop_all()

    asyncio.run(run())
