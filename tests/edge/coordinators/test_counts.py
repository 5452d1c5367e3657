"""Groups and their rebalances, counted for metrics."""

from isthmus_broker.core.group.config import GroupConfig
from isthmus_broker.edge.coordinators.counts import Rebalances, count_groups

from tests.unit.group.harness import World
from tests.unit.group.streams.clients import beat


def shard_of_three_groups() -> World:
    """A streams group with a member, a consumer group with one, and a classic group with committed offsets only."""
    shard = World(config=GroupConfig(group_streams_initial_rebalance_delay_ms=0))
    beat(shard, "m", 0, group_id="streams-group")
    shard.beat("m", 0, topics=["a"], group_id="consumer-group")
    shard.commit_offsets({("a", 0): 1}, group_id="classic-group")
    return shard


def test_groups_are_counted_by_type_and_state() -> None:
    shard = shard_of_three_groups()
    assert count_groups([shard.shard, World().shard], shard.now) == {
        ("streams", "Stable"): 1,
        ("consumer", "Stable"): 1,
        ("classic", "Empty"): 1,
    }


def test_rebalances_are_counted_by_the_type_of_the_group() -> None:
    shard, rebalances = shard_of_three_groups(), Rebalances()
    shard.beat("n", 0, topics=["a"], group_id="consumer-group")
    shard.stable_member()
    for note in shard.notes:
        rebalances.note(shard.shard, note)
    assert rebalances.by_type == {"streams": 1, "consumer": 2, "classic": 1}
