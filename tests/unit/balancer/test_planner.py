"""Plans: hard goals hold after every move, loads are balanced, and a balanced cluster stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_balancer.core.cluster import Broker, ClusterState, Limits, Partition
from isthmus_balancer.core.plan import Goal, Plan
from isthmus_balancer.core.planner import make_plan


def cluster(racks: list[str], partitions: list[tuple[int, ...]], **given: int) -> ClusterState:
    brokers = {number: Broker(number, rack) for number, rack in enumerate(racks)}
    made = [
        Partition("t", index, replicas, replicas[0], given.get("size", 100))
        for index, replicas in enumerate(partitions)
    ]
    return ClusterState(brokers, made)


def after(state: ClusterState, plan: Plan) -> ClusterState:
    """The cluster when the plan is carried out and preferred replicas lead."""
    moved = []
    for partition in state.partitions:
        target = plan.targets.get((partition.topic, partition.index), partition.replicas)
        observers = frozenset(target[len(target) - len(partition.observers) :] if partition.observers else ())
        leader = target[0] if target != partition.replicas else partition.leader
        moved.append(replace(partition, replicas=target, leader=leader, observers=observers))
    return replace(state, partitions=moved)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    """Up to eight brokers in up to four racks of two regions; some leave, some topics are constrained."""
    count = draw(st.integers(2, 8))
    zones = ["w/a", "w/b", "e/a", "e/b"]
    leaving = draw(st.sets(st.integers(0, count - 1), max_size=1))
    brokers = {
        n: Broker(
            n, draw(st.sampled_from(zones)), leaves=n in leaving, disk_capacity=draw(st.sampled_from([0, 10_000]))
        )
        for n in range(count)
    }
    partitions = []
    for index in range(draw(st.integers(0, 30))):
        replicas = tuple(draw(st.permutations(range(count))))[: draw(st.integers(1, min(3, count)))]
        constrained = draw(st.booleans())
        observers = (
            frozenset(replicas[-1:]) if constrained and len(replicas) > 1 and draw(st.booleans()) else frozenset()
        )
        partitions.append(
            Partition(
                f"t{index % 3}",
                index,
                replicas,
                replicas[0],
                draw(st.integers(0, 2_000)),
                draw(st.floats(0, 100)),
                draw(st.floats(0, 100)),
                observers,
                constrained,
                constrained and draw(st.booleans()),
            )
        )
    return ClusterState(brokers, partitions)


def bounds(state: ClusterState, partition: Partition, brokers: Iterable[int]) -> Counter[str]:
    """How many replicas each rack has, or each region where racks are not what counts."""
    places = (state.brokers[broker] for broker in brokers)
    return Counter(place.rack if partition.by_rack else place.region for place in places)


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_what_must_hold_is_never_broken(state: ClusterState) -> None:
    plan = make_plan(state)
    result = after(state, plan)
    for old, new in zip(state.partitions, result.partitions, strict=True):
        assert len(set(new.replicas)) == len(old.replicas), "as many replicas as before, on different brokers"
        assert len(new.observers) == len(old.observers)
        assert new.leader not in new.observers or old.leader in old.observers
        if old.constrained:
            assert bounds(state, old, old.replicas) == bounds(state, old, new.replicas)
            assert bounds(state, old, old.observers) == bounds(state, old, new.observers)
        else:
            for by_rack in (True, False):
                kept = replace(old, by_rack=by_rack)
                assert len(bounds(state, kept, new.replicas)) >= len(bounds(state, kept, old.replicas))
        gained = set(new.replicas) - set(old.replicas)
        assert not any(state.brokers[broker].leaves for broker in gained), "nothing comes to a broker that leaves"


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_no_goal_that_must_hold_is_violated_more_than_before(state: ClusterState) -> None:
    hard = [score for score in make_plan(state).goals if score.hard]
    assert all(score.violations_after <= score.violations_before for score in hard)


def test_an_empty_broker_gets_its_share_of_replicas_and_leaders() -> None:
    state = cluster(["w/a", "w/b", "w/c", "w/d"], [(n % 3, (n + 1) % 3) for n in range(60)])
    plan = make_plan(state)
    assert [load.replicas for load in plan.before] == [40, 40, 40, 0]
    assert all(27 <= load.replicas <= 33 for load in plan.after)
    assert all(13 <= load.leaders <= 17 for load in plan.after)
    assert make_plan(after(state, plan)).moves == ()


def test_the_same_cluster_gives_the_same_plan() -> None:
    state = cluster(["w/a", "w/b", "e/a", "e/b"], [(0, 1)] * 30)
    assert make_plan(state) == make_plan(state)


def test_a_broker_to_remove_is_emptied_and_what_must_stay_is_reported() -> None:
    state = cluster(["w/a", "w/b"], [(0, 1)] * 3)
    state = replace(state, brokers={**state.brokers, 0: Broker(0, "w/a", leaves=True)})
    plan = make_plan(state)
    assert [move for move in plan.moves if not move.leadership] == []
    assert plan.unfixable == tuple(
        f"t-{n} must stay on broker 0: no other broker is allowed to have it" for n in range(3)
    )
    four = replace(state, brokers={**state.brokers, 3: Broker(3, "w/a")})
    assert {replicas[0] for replicas in (p.replicas for p in after(four, make_plan(four)).partitions)} <= {1, 2, 3}


def test_replicas_that_share_a_rack_are_spread() -> None:
    state = cluster(["w/a", "w/a", "w/b"], [(0, 1)])
    plan = make_plan(state)
    assert plan.targets == {("t", 0): (0, 2)}
    assert "rack w/a has more replicas of t-0 than necessary" in plan.moves[0].reason


def test_a_full_disk_is_relieved_first_of_what_is_largest() -> None:
    state = cluster(["w/a", "w/b", "w/c"], [(0,), (0,), (0,), (1,), (2,)])
    sizes = [700, 100, 100, 50, 50]
    partitions = [replace(p, size=size) for p, size in zip(state.partitions, sizes, strict=True)]
    brokers = {n: replace(b, disk_capacity=1_000) for n, b in state.brokers.items()}
    plan = make_plan(ClusterState(brokers, partitions), Limits(threshold=10))
    first = plan.moves[0]
    assert (first.partition, first.source, first.goal) == (0, 0, Goal.DISK_CAPACITY)
    assert all(load.disk <= 850 for load in plan.after)


def test_a_partition_that_is_not_whole_is_left_alone_unless_its_broker_leaves() -> None:
    state = cluster(["w/a", "w/b", "w/c"], [(0, 1)] * 12)
    broken = replace(state, partitions=[replace(p, is_whole=False) for p in state.partitions])
    assert [m for m in make_plan(broken).moves if not m.leadership] == []


def test_leaders_are_spread_by_leadership_alone() -> None:
    state = cluster(["w/a", "w/b"], [(0, 1)] * 10)
    plan = make_plan(state)
    assert all(move.leadership and move.bytes == 0 for move in plan.moves)
    assert [load.leaders for load in plan.after] == [5, 5]
    assert set(plan.targets.values()) == {(1, 0)}
