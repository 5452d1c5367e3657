"""The replica that a consumer should read from."""

import pytest
from isthmus_broker.core.replica.progress import Progress
from isthmus_broker.core.replica.selector import Candidate, has_offset, preferred_replica

LEADER = Candidate(1, "us/a", 100, 0)
OTHERS = (
    Candidate(2, "eu/a", 90, 50),
    Candidate(3, "eu/b", 95, 40),
    Candidate(4, "ap", 95, 60),
    Candidate(5, "ap", 95, 70),
    Candidate(6, None, 99, 0),
)


@pytest.mark.parametrize(
    ("rack", "preferred"),
    [
        ("", None),
        ("us/a", None),
        ("us/b", None),  # the leader is in the region
        ("eu/a", 2),  # the same rack, though another replica of the region has more records
        ("eu/c", 3),  # the most caught-up replica of the region
        ("eu", 3),
        ("ap", 5),  # the same records: the one that was caught up last
        ("sa", None),
    ],
)
def test_which_replica_is_preferred(rack: str, preferred: int | None) -> None:
    assert preferred_replica(rack, LEADER, OTHERS) == preferred


def test_equal_replicas_are_ordered_by_their_id() -> None:
    assert preferred_replica("x", LEADER, (Candidate(8, "x", 5, 5), Candidate(7, "x", 5, 5))) == 7


def test_a_leader_without_rack_is_near_no_client() -> None:
    assert preferred_replica("eu/a", LEADER._replace(rack=None), OTHERS) == 2


@pytest.mark.parametrize(
    ("offset", "served"),
    [(9, False), (10, True), (40, True), (41, False)],
)
def test_a_replica_serves_offsets_below_the_high_watermark_it_has_received(offset: int, served: bool) -> None:
    assert has_offset(Progress(log_start=10, log_end=50, high_watermark=40), offset) is served


def test_a_replica_that_has_not_fetched_serves_nothing() -> None:
    assert not has_offset(Progress(), 0)
