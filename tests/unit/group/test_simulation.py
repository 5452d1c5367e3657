"""Random lives of groups: clients of both protocols join, leave, stop sending and send wrong data; time passes, topics change, appends
fail.

After every step no partition has two owners, and replaying the log gives the state there is.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.group import reconcile
from isthmus_broker.core.group.config import GroupConfig
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_wire.errors import ErrorCode
from kio.schema.leave_group.v5.request import MemberIdentity

from tests.unit.group.harness import GROUP, World, assign, assigned, beat_request, subscribe, topics
from tests.unit.group.snapshot import settled, snapshot

STEPS = 120


@dataclass
class ConsumerClient:
    """A client of the consumer protocol as in KIP-848: it revokes partitions before it takes new ones."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    owned: dict[UUID, set[int]] = field(default_factory=dict)

    def beat(self, world: World, rng: random.Random) -> None:
        """One heartbeat, sometimes with a change of subscription, and the reaction to its response."""
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        if self.epoch == 0 or rng.random() < 0.1:
            _subscribe(fields, rng)
        if self.epoch > 0 and rng.random() < 0.7:
            fields["owned"] = self.owned
        if rng.random() < 0.1:
            fields["server_assignor"] = rng.choice(["uniform", "range"])
        response = world.beat(self.member_id, self.epoch, **fields)
        if response.error_code != ErrorCode.none:
            self.epoch, self.owned = 0, {}
            return
        self.epoch = response.member_epoch
        given = assigned(response)
        if given is not None:
            self.owned = {topic_id: set(indexes) for topic_id, indexes in given.items()}

    def leave(self, world: World, rng: random.Random) -> None:
        """For good, or, as a static member, for a while."""
        away = self.instance_id is not None and rng.random() < 0.5
        world.beat(self.member_id, -2 if away else -1, instance_id=self.instance_id)
        self.epoch, self.owned = 0, {}


def _subscribe(fields: dict[str, Any], rng: random.Random) -> None:
    if rng.random() < 0.3:
        fields["subscribed_topic_regex"] = rng.choice(["a|b", ".*", "c", ""])
        fields["topics"] = rng.choice([(), ("a",)])
    else:
        fields["topics"] = rng.choice([("a",), ("a", "b"), ("b", "c"), ("c", "absent"), ()])
        fields["subscribed_topic_regex"] = ""


@dataclass
class ClassicClient:
    """A client of the classic protocol; requests that wait are looked after later."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    joining: int | None = None
    syncing: int | None = None
    owned: tuple[int, ...] = ()

    def step(self, world: World, rng: random.Random) -> None:
        """Continue from its current state."""
        if self.joining is not None:
            self._joined(world)
        elif self.syncing is not None:
            self._synced(world)
        elif self.generation < 0:
            self._join(world, rng)
        else:
            error = world.heartbeat(self.member_id, self.generation, group_instance_id=self.instance_id)
            if error == ErrorCode.rebalance_in_progress:
                self._join(world, rng)
            elif error != ErrorCode.none:
                self.member_id, self.generation = "", -1

    def _join(self, world: World, rng: random.Random) -> None:
        metadata = subscribe(*rng.choice([("a",), ("a", "b")]))
        protocols = {"range": metadata} if rng.random() < 0.7 else {"range": metadata, "sticky": metadata}
        self.joining = world.join(
            self.member_id,
            protocols=protocols,
            group_instance_id=self.instance_id,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=20_000,
        )

    def _joined(self, world: World) -> None:
        response = world.replies.pop(self.joining or 0, None)
        if response is None:
            return
        self.joining = None
        if response.error_code == ErrorCode.member_id_required:
            self.member_id = response.member_id
        elif response.error_code != ErrorCode.none:
            self.member_id, self.generation = "", -1
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            shares = {member.member_id: assign(a=(place,)) for place, member in enumerate(response.members)}
            self.syncing = world.sync(
                self.member_id,
                self.generation,
                shares,
                group_instance_id=self.instance_id,
                protocol_name=response.protocol_name,
            )

    def _synced(self, world: World) -> None:
        response = world.replies.pop(self.syncing or 0, None)
        if response is None:
            return
        self.syncing = None
        if response.error_code not in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            self.member_id, self.generation = "", -1
        elif response.error_code == ErrorCode.rebalance_in_progress:
            self.generation = -1

    def leave(self, world: World) -> None:
        """Join with its current identity."""
        if self.joining is None and self.syncing is None:
            world.leave(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id))
            self.member_id, self.generation = "", -1


def _check_owners(world: World) -> None:
    """The one rule: a partition that a member owns, or has yet to revoke, has no other owner."""
    group = world.shard.registry.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return
    owners: dict[tuple[UUID, int], str] = {}
    for member in group.members.values():
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    owner = owners.setdefault((topic_id, partition), member.member_id)
                    assert owner == member.member_id, f"{partition} is {owner}'s and {member.member_id}'s"
    target = [
        (topic_id, index)
        for partitions in group.target.values()
        for topic_id, indexes in partitions.items()
        for index in indexes
    ]
    assert len(target) == len(set(target)), "the target gives a partition twice"


def _check_clients(world: World, clients: list[ConsumerClient]) -> None:
    """What a client believes to own is its own in the group's books, unless it was put out."""
    group = world.shard.registry.groups.get(GROUP)
    for client in clients:
        member = group.members.get(client.member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or client.epoch != getattr(member, "epoch", None):
            continue
        for topic_id, partitions in client.owned.items():
            books = member.assigned.get(topic_id, {}).keys() | member.revoking.get(topic_id, {}).keys()
            assert partitions <= books


def _check_replay(world: World, *, classic: bool = True) -> None:
    """Another leader would have the same state."""
    live, other = world.shard, world.reloaded()
    mine, theirs = snapshot(live, classic=classic), snapshot(other, classic=classic)
    known = settled(live)
    theirs["groups"] = {group_id: state for group_id, state in theirs["groups"].items() if group_id in known}
    assert mine == theirs


def _world(seed: int, **config: Any) -> tuple[World, random.Random]:
    rng = random.Random(seed)
    values = {
        "group_initial_rebalance_delay_ms": rng.choice([0, 3_000]),
        "group_consumer_assignment_interval_ms": rng.choice([0, 1_000]),
        "group_consumer_session_timeout_ms": rng.choice([5_000, 45_000]),
        "offsets_retention_minutes": 1,
        "offsets_retention_check_interval_ms": 30_000,
    }
    return World(config=GroupConfig(**(values | config)), view=topics(a=5, b=3)), rng


def _metadata_change(world: World, rng: random.Random) -> Callable[[], None]:
    counts = {"a": 5, "b": 3} | ({"c": rng.randint(1, 4)} if rng.random() < 0.5 else {})
    if rng.random() < 0.3:
        del counts["b"]
    counts["a"] = rng.choice([5, 7])
    return lambda: world.see(topics(world.view.version + 1, **counts))


def _commit(world: World, rng: random.Random, member_id: str = "", epoch: int = -1) -> Callable[[], None]:
    offsets = {(rng.choice(["a", "b"]), rng.randint(0, 2)): rng.randint(0, 100)}
    return lambda: void(world.commit_offsets(offsets, member_id=member_id, generation_id_or_member_epoch=epoch))


def _set_the_wall_clock(world: World, rng: random.Random) -> Callable[[], None]:
    offset_ms = rng.randint(-3_600_000, 3_600_000)
    return lambda: setattr(world, "wall_offset_ms", offset_ms)


def void(_: object) -> None:
    """Only the effect counts."""


@pytest.mark.parametrize("seed", range(60))
def test_consumer_groups_never_share_a_partition_and_replay_to_the_same_state(seed: int) -> None:
    world, rng = _world(seed)
    clients = [ConsumerClient(f"m{place}", f"i{place}" if place % 3 == 0 else None) for place in range(5)]
    for _ in range(STEPS):
        client = rng.choice(clients)
        actions: list[Callable[[], None]] = [
            partial(client.beat, world, rng),
            partial(client.leave, world, rng),
            lambda: world.advance(rng.choice([100, 1_500, 7_000])),
            _metadata_change(world, rng),
            _commit(world, rng, client.member_id, client.epoch),
            _set_the_wall_clock(world, rng),
        ]
        rng.choices(actions, weights=[10, 1, 3, 0.5, 1, 0.5])[0]()
        _check_owners(world)
        _check_clients(world, clients)
        _check_replay(world)


@pytest.mark.parametrize("seed", range(60))
def test_groups_of_both_protocols_migrate_and_replay_to_the_same_state(seed: int) -> None:
    world, rng = _world(seed)
    classic = [ClassicClient(f"c{place}", f"i{place}" if place == 0 else None) for place in range(3)]
    modern = [ConsumerClient(f"m{place}", f"i{place}" if place == 0 else None) for place in range(3)]
    for _ in range(STEPS):
        old, new = rng.choice(classic), rng.choice(modern)
        actions: list[Callable[[], None]] = [
            partial(old.step, world, rng),
            partial(old.leave, world),
            partial(new.beat, world, rng),
            partial(new.leave, world, rng),
            lambda: world.advance(rng.choice([100, 1_500, 7_000, 25_000])),
            _metadata_change(world, rng),
            _commit(world, rng),
            _set_the_wall_clock(world, rng),
        ]
        rng.choices(actions, weights=[12, 0.5, 4, 1.5, 3, 0.2, 0.5, 0.5])[0]()
        _check_owners(world)
        _check_replay(world)


@pytest.mark.parametrize("seed", range(40))
def test_an_append_that_fails_changes_nothing(seed: int) -> None:
    world, rng = _world(seed)
    world.auto_append = False
    errors = [ErrorCode.not_enough_replicas, ErrorCode.request_timed_out, ErrorCode.kafka_storage_error]
    for _ in range(STEPS):
        member_id = rng.choice(["m1", "m2", "m3"])
        epoch = rng.choice([0, 0, 2, 3, 4, -1])
        before = snapshot(world.shard, classic=False)
        if rng.random() < 0.2:
            world.now_ms += rng.choice([100, 6_000])
            world.runtime.tick(world.now)
        else:
            world.submit(beat_request(member_id, epoch, topics=rng.choice([("a",), ("a", "b")]), owned={}))
        world.settle()
        while world.pending:
            if rng.random() < 0.4:
                world.fail(rng.choice(errors))
                assert snapshot(world.shard, classic=False) == before
            else:
                world.append()
                world.settle()
            before = snapshot(world.shard, classic=False)
        _check_owners(world)
        _check_replay(world, classic=False)


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("seed", range(10))
def test_a_wall_clock_step_evicts_no_member(seed: int, step_ms: int) -> None:
    world, rng = _world(seed)
    modern = [ConsumerClient(f"m{place}", None) for place in range(3)]
    for client in modern:
        client.beat(world, rng)
        assert client.epoch > 0
    for _ in range(STEPS):
        if rng.random() < 0.2:
            world.wall_offset_ms += rng.choice([0, step_ms])
        world.advance(rng.choice([100, 1_000]))
        for client in modern:
            client.beat(world, rng)
            assert client.epoch > 0, "a member that sends heartbeats was evicted"
    group = world.shard.registry.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    assert group.members.keys() == {client.member_id for client in modern}


def test_a_planted_bug_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that take partitions before others have revoked them: if this is not detected, the simulations above are too tame."""
    monkeypatch.setattr(reconcile, "_is_free", lambda *_: True)
    found = 0
    for seed in range(10):
        try:
            test_consumer_groups_never_share_a_partition_and_replay_to_the_same_state(seed)
        except AssertionError:
            found += 1
    assert found >= 8
