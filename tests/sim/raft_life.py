"""One cluster's life: created from a seed, it runs with faults, is healed, and must then commit on every node again."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import AddVoter, RemoveVoter, Shutdown, UpgradeKraftVersion, Write
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId, Voter, VoterEndpoint, VoterSet

from tests.sim.checkers.committed import CommittedStays
from tests.sim.checkers.leaders import OneLeaderPerEpoch
from tests.sim.checkers.matching import LogsMatch
from tests.sim.checkers.monotonic import NothingGoesBack
from tests.sim.checkers.votes import OneVotePerEpoch
from tests.sim.disk import Disk
from tests.sim.faults import DiskRates, FaultRates, NetRates
from tests.sim.net import Net
from tests.sim.raft_image import RaftImage, SnapshotFile
from tests.sim.raft_node import RaftNode
from tests.sim.world import Violation, World

FAULTS_MS = 6_000
HEALING_MS = 60_000
"""Upper bound on the recovery after the faults: enough for many lost elections in a row, so that only a stuck cluster needs longer."""

MakeNode = Callable[[World, Net, RaftConfig, "Disk[RaftImage, Write]", "dict[int, RaftNode]"], RaftNode]


class RaftLife:
    def __init__(self, seed: int, *, traced: bool = False, make_node: MakeNode = RaftNode) -> None:
        world = self.world = World(seed, traced=traced)
        random = world.random
        self._rates = FaultRates.draw(random)
        self._net = Net(world, NetRates.draw(random))
        self._nodes: dict[int, RaftNode] = {}
        voters = random.choice((1, 3, 3, 5))
        observers = random.randrange(3)
        self._is_static = random.random() < 0.3
        self._upgrades = random.random() < 0.7
        self._tokens = 0
        self._calm = False
        self._build(voters, observers, make_node)
        self._truth = CommittedStays(self._nodes)
        votes, monotonic = OneVotePerEpoch(self._nodes), NothingGoesBack(self._nodes)
        world.checkers = [OneLeaderPerEpoch(self._nodes), monotonic, LogsMatch(self._nodes), self._truth]
        for node in self._nodes.values():
            node.watchers = [self._truth, votes, monotonic]
            node.refuses = lambda: world.chance(self._rates.refuses)

    def _build(self, voter_count: int, observer_count: int, make_node: MakeNode) -> None:
        world, random = self.world, self.world.random
        members = [_voter(node_id) for node_id in range(1, voter_count + observer_count + 1)]
        voters = VoterSet(tuple(members[:voter_count]))
        # The settings of a dynamic quorum may name its first voters, too; they do not count while the log has voters.
        is_named = self._is_static or random.random() < 0.3
        static = VoterSet(tuple(Voter(ReplicaKey(node_id)) for node_id in voters.node_ids())) if is_named else None
        files: dict[SnapshotId, VoterSet | None] = {SnapshotId(0, 0): voters}
        snapshot_after = random.choice((60, 300, 1_000_000))
        timeout = random.choice((150, 400, 1_000))
        for member in members:
            config = RaftConfig(
                local=member,
                static_voters=static,
                bootstrap=tuple(each for each in voters.node_ids() if each != member.key.node_id),
                election_timeout_ms=timeout,
                fetch_timeout_ms=2 * timeout,
                request_timeout_ms=2 * timeout,
                fetch_wait_max_ms=timeout // 2,
                fetch_bytes_max=random.choice((20, 200, 100_000)),
                snapshot_chunk_bytes_max=random.choice((7, 100)),
                snapshot_after_bytes=snapshot_after,
                snapshot_after_ms=random.choice((1_500, 10_000_000)),
                snapshots_kept=random.choice((1, 2)),
                appends_pending_max=random.choice((3, 1_000)),
            )
            image = RaftImage(voters_of=files)
            is_formatted = not self._is_static and member.key.node_id <= voter_count
            if is_formatted:
                image.snapshots[SnapshotId(0, 0)] = SnapshotFile(0, voters, 8)
            disk: Disk[RaftImage, Write] = Disk(world, DiskRates.draw(random), image)
            self._nodes[config.node_id] = make_node(world, self._net, config, disk, self._nodes)

    # The two phases

    def run(self) -> None:
        """Run this life; raises Violation, or AssertionError from inside a core, on a defect."""
        for node_id in sorted(self._nodes):
            self.world.after(self.world.random.randrange(200), self._nodes[node_id].start)
        self._plan(self._rates.crash_every, self._crash_one)
        self._plan(self._rates.cut_every, self._cut_some)
        self._plan(self._rates.append_every, self._append)
        if not self._is_static or self._upgrades:
            self._plan(self._rates.voters_every, self._change_voters)
        self.world.run_until(FAULTS_MS)
        self._heal()
        last = self._truth.end
        if not self.world.run_until(self.world.now + HEALING_MS, lambda: self._has_recovered(last)):
            states = {node_id: self._describe(node) for node_id, node in self._nodes.items()}
            raise Violation(f"no progress after healing: {states}, committed up to {self._truth.end}")

    def _plan(self, every: int | None, action: Callable[[], None]) -> None:
        """Repeat an action at random intervals with this mean, until the world is healed."""
        if every is None:
            return
        pause = every

        def act() -> None:
            if not self._calm:
                action()
                self.world.after(1 + self.world.random.randrange(2 * pause), act)

        self.world.after(1 + self.world.random.randrange(2 * pause), act)

    def _heal(self) -> None:
        self._calm = True
        self._net.rates = NetRates()
        self._net.heal()
        for node_id in sorted(self._nodes):
            node = self._nodes[node_id]
            node.disk.rates = DiskRates()
            node.disk.trap = None
            if node.core is None:
                node.start()
        self._append_until_committed()

    def _append_until_committed(self) -> None:
        self._append()
        self.world.after(500, self._append_until_committed)

    def _has_recovered(self, last: int) -> bool:
        """Something new is committed, and every node has all of it."""
        return self._truth.end > last and all(
            node.core is not None and node.applied == self._truth.end for node in self._nodes.values()
        )

    def _describe(self, node: RaftNode) -> str:
        core = node.core
        if core is None:
            return "down"
        return (
            f"{core.role.__name__} of epoch {core.epoch} under {core.leader_id}, log {core.log_start} to {core.log_end}, "
            f"committed {core.high_watermark}, applied {node.applied}, voters {core.voters.node_ids()}"
        )

    # Faults

    def _some_node(self) -> RaftNode:
        ids = sorted(self._nodes)
        return self._nodes[ids[self.world.random.randrange(len(ids))]]

    def _crash_one(self) -> None:
        node = self._some_node()
        if self.world.chance(self._rates.crash_in_write):
            node.disk.trap = lambda: self._crash(node)
            return
        if node.core is not None and self.world.chance(self._rates.clean_stop):
            node.step(Shutdown())
        self._crash(node)

    def _crash(self, node: RaftNode) -> None:
        if node.core is not None:
            node.crash()
            self.world.after(self.world.random.randrange(self._rates.down_max), lambda: self._start(node))

    def _start(self, node: RaftNode) -> None:
        """Restart a node, sometimes with another address."""
        if node.core is None:
            if self.world.chance(0.1):
                moved = VoterEndpoint("CONTROLLER", f"node-{node.id}", 1 + self.world.random.randrange(3))
                node.config = replace(node.config, local=replace(node.config.local, endpoints=(moved,)))
            node.start()

    def _cut_some(self) -> None:
        """Partition a random part of the nodes from the rest, in one direction or both, for some time."""
        world = self.world
        part = {node_id for node_id in sorted(self._nodes) if world.chance(0.5)}
        is_one_way = world.chance(self._rates.one_way)
        for a in sorted(part):
            for b in sorted(set(self._nodes) - part):
                self._net.cut(a, b)
                if not is_one_way:
                    self._net.cut(b, a)
        world.after(world.random.randrange(self._rates.cut_max), self._net.heal)

    def _append(self) -> None:
        """Append at every node that believes it is the leader, sometimes at another one."""
        for node_id in sorted(self._nodes):
            node = self._nodes[node_id]
            if node.core is not None and (node.core.is_leader or self.world.chance(0.05)):
                token = self._token()
                count = 1 + self.world.random.randrange(3)
                node.append(token, f"append {token}".encode(), count)

    def _change_voters(self) -> None:
        for node_id in sorted(self._nodes):
            node = self._nodes[node_id]
            if node.core is None or not node.core.is_leader:
                continue
            if node.core.kraft_version == 0:
                node.step(UpgradeKraftVersion(self._token()))
                continue
            other = self._some_node()
            if node.core.voters.find(other.id) is None:
                node.step(AddVoter(self._token(), other.config.local))
            else:
                node.step(RemoveVoter(self._token(), other.config.key))

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens


def _voter(node_id: int) -> Voter:
    return Voter(ReplicaKey(node_id, UUID(int=node_id)), (VoterEndpoint("CONTROLLER", f"node-{node_id}", 9093),))
