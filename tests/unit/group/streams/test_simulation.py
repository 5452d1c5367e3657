"""Random lives of streams groups: threads of several processes join, leave, stop sending and lose responses; time passes, topics change,
appends fail, settings change.

After every step no task is active twice, no process has a task twice, and replaying the log gives the state there is.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from isthmus_broker.core.group.config import GroupConfig, GroupOverrides
from isthmus_broker.core.group.streams import owners
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_wire.errors import ErrorCode

from tests.unit.group.harness import GROUP, World, topics
from tests.unit.group.snapshot import snapshot
from tests.unit.group.streams.clients import Client, beat_request, described, internal, part, topology

STEPS = 150
TOPOLOGY = topology(part("0", "a"), part("1", "b", changelogs=[internal("c")]))


def _world(seed: int) -> tuple[World, random.Random]:
    rng = random.Random(seed)
    config = GroupConfig(
        group_streams_initial_rebalance_delay_ms=rng.choice([0, 3_000]),
        group_streams_assignment_interval_ms=rng.choice([0, 1_000]),
        group_streams_session_timeout_ms=rng.choice([10_000, 45_000]),
        group_streams_num_standby_replicas=rng.choice([0, 1, 2]),
        offsets_retention_minutes=1,
        offsets_retention_check_interval_ms=30_000,
    )
    return World(config=config, view=topics(a=5, b=3, c=3)), rng


def _metadata_change(world: World, rng: random.Random) -> Callable[[], Any]:
    counts = {"a": rng.choice([5, 7]), "b": 3, "c": 3}
    if rng.random() < 0.3:
        del counts[rng.choice("abc")]
    return lambda: world.see(topics(world.view.version + 1, **counts))


def _setting_change(world: World, rng: random.Random) -> Callable[[], Any]:
    own = GroupOverrides(streams_num_standby_replicas=rng.choice([0, 1, 2, None]))
    return lambda: world.configs.groups.__setitem__(GROUP, own)


def _check_owners(world: World) -> None:
    """The two rules."""
    group = world.shard.registry.groups.get(GROUP)
    if not isinstance(group, StreamsGroup):
        return
    active: dict[tuple[str, int], str] = {}
    held: dict[tuple[str, int, str], str] = {}
    for member in group.members.values():
        for owned in (member.assigned, member.revoking):
            for name, partitions in owned.active.items():
                for index in partitions:
                    owner = active.setdefault((name, index), member.member_id)
                    assert owner == member.member_id, f"{name}-{index} is active at {owner} and {member.member_id}"
            for tasks in (owned.active, owned.standby):
                for name, indexes in tasks.items():
                    for index in indexes:
                        key = (name, index, member.process_id)
                        assert held.setdefault(key, member.member_id) == member.member_id, f"{key} is there twice"


def _check_replay(world: World) -> None:
    """Another leader would have the same state."""
    assert snapshot(world.shard) == snapshot(world.reloaded())


@pytest.mark.parametrize("seed", range(60))
def test_no_task_is_active_twice_and_replay_leads_to_the_same_state(seed: int) -> None:
    world, rng = _world(seed)
    clients = [Client(f"m{place}", f"p{place % 3}", TOPOLOGY) for place in range(5)]
    for _ in range(STEPS):
        client = rng.choice(clients)
        actions: list[Callable[[], Any]] = [
            partial(client.beat, world, rng),
            partial(client.leave, world),
            lambda: world.advance(rng.choice([100, 1_500, 7_000])),
            _metadata_change(world, rng),
            _setting_change(world, rng),
            partial(setattr, world, "wall_offset_ms", rng.randint(-3_600_000, 3_600_000)),
        ]
        rng.choices(actions, weights=[12, 0.7, 2, 0.5, 0.3, 0.2])[0]()
        _check_owners(world)
        _check_replay(world)


@pytest.mark.parametrize("seed", range(30))
def test_a_group_that_is_left_alone_settles(seed: int) -> None:
    world, rng = _world(seed)
    clients = [Client(f"m{place}", f"p{place % 3}", TOPOLOGY) for place in range(5)]
    for _ in range(30):
        rng.choice(clients).beat(world, rng)
        if rng.random() < 0.1:
            rng.choice(clients).leave(world)
    for _ in range(12):
        world.advance(1_000)
        for client in clients:
            client.beat(world)
    group = described(world)
    assert group.group_state == "Stable"
    for name, count in (("0", 5), ("1", 3)):
        assert sorted(index for client in clients for index in client.active.get(name, ())) == list(range(count))
    copies = min(world.config.group_streams_num_standby_replicas, 2)
    assert sum(len(client.standby.get("1", ())) for client in clients) == 3 * copies


@pytest.mark.parametrize("seed", range(40))
def test_an_append_that_fails_changes_nothing(seed: int) -> None:
    world, rng = _world(seed)
    world.auto_append = False
    errors = [ErrorCode.not_enough_replicas, ErrorCode.request_timed_out, ErrorCode.kafka_storage_error]
    for _ in range(STEPS):
        before = snapshot(world.shard)
        if rng.random() < 0.2:
            world.now_ms += rng.choice([100, 6_000])
            world.runtime.tick(world.now)
        else:
            name, epoch = rng.choice(["m1", "m2", "m3"]), rng.choice([0, 0, 2, 3, 4, -1])
            world.submit(beat_request(name, epoch, active={}, topology=TOPOLOGY if epoch == 0 else None))
        world.settle()
        while world.pending:
            if rng.random() < 0.4:
                world.fail(rng.choice(errors))
                assert snapshot(world.shard) == before
            else:
                world.append()
                world.settle()
            before = snapshot(world.shard)
        _check_owners(world)
        _check_replay(world)


@pytest.mark.parametrize("rule", ["may_activate", "may_copy"])
def test_a_planted_bug_is_detected(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that get tasks before others have revoked them: if this is not detected, the simulation above is too tame."""
    monkeypatch.setattr(owners.TaskOwners, rule, lambda *_: True)
    detected = 0
    for seed in range(40):
        try:
            test_no_task_is_active_twice_and_replay_leads_to_the_same_state(seed)
        except AssertionError:
            detected += 1
        if detected == 3:
            return
    raise AssertionError(f"detected {detected} times")
