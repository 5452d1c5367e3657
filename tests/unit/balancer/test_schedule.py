"""The order and number of concurrent moves."""

from isthmus_balancer.core.schedule import Pace, next_moves

TARGETS = {("t", n): (2, 3) for n in range(4)}
PLACED = {("t", n): (1, 2) for n in range(4)}


def test_no_broker_has_more_moves_than_the_pace_allows() -> None:
    assert next_moves(TARGETS, PLACED, [], list(TARGETS), Pace(per_broker=2)) == [("t", 0), ("t", 1)]
    assert next_moves(TARGETS, PLACED, [("t", 0)], list(TARGETS), Pace(per_broker=2)) == [("t", 1)]
    assert next_moves(TARGETS, PLACED, [], list(TARGETS), Pace(in_all=3)) == [("t", 0), ("t", 1), ("t", 2)]


def test_a_partition_that_is_not_ready_waits_and_a_new_order_uses_no_capacity() -> None:
    assert next_moves(TARGETS, PLACED, [], [("t", 3)], Pace()) == [("t", 3)]
    reordered = {("t", n): (2, 1) for n in range(4)}
    assert len(next_moves(reordered, PLACED, [], list(TARGETS), Pace(per_broker=1))) == 4
