"""Striped placement: spread over racks and brokers, leaders evenly, fenced brokers never first."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_broker.core.metadata.placement import UsableBroker, place, usable_brokers
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_wire.errors import ErrorCode

from tests.unit.metadata.cluster import Cluster


def brokers(count: int, racks: int = 1, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(i, f"r{i % racks}" if racks > 1 else None, i in fenced) for i in range(count)]


def test_leaders_and_replicas_are_even_over_one_round() -> None:
    placed = place(brokers(6, racks=3), 6, 3, random.Random(1))
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(6), 1)
    assert Counter(replica for replicas in placed for replica in replicas) == dict.fromkeys(range(6), 3)
    for replicas in placed:
        assert len({replica % 3 for replica in replicas}) == 3


def test_a_fenced_broker_follows_but_never_leads() -> None:
    placed = place(brokers(3, fenced=(1,)), 30, 3, random.Random(2))
    assert all(sorted(replicas) == [0, 1, 2] and replicas[0] != 1 for replicas in placed)


def test_the_same_randomness_places_the_same() -> None:
    assert place(brokers(9, 3), 20, 3, random.Random(5)) == place(brokers(9, 3), 20, 3, random.Random(5))


@pytest.mark.parametrize(
    ("known", "factor", "message"),
    [
        (brokers(1), 0, "Invalid replication factor 0: the replication factor must be positive."),
        (brokers(2, fenced=(0, 1)), 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            brokers(2),
            3,
            (
                "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered or some "
                "brokers have all their log directories cordoned."
            ),
        ),
    ],
)
def test_what_cannot_be_placed(known: list[UsableBroker], factor: int, message: str) -> None:
    with pytest.raises(ControllerError) as refusal:
        place(known, 1, factor, random.Random(0))
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.invalid_replication_factor, message)


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(0, 1000),
)
def test_every_placement_is_sound(
    shape: list[tuple[str | None, bool]], factor: int, partitions: int, seed: int
) -> None:
    known = [UsableBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(shape)]
    unfenced = {broker.id for broker in known if not broker.fenced}
    if not unfenced or factor > len(known):
        with pytest.raises(ControllerError):
            place(known, partitions, factor, random.Random(seed))
        return
    placed = place(known, partitions, factor, random.Random(seed))
    racks = {broker.rack for broker in known}
    rack_of = {broker.id: broker.rack for broker in known}
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in unfenced
        # No rack gets a second replica while another has none.
        assert len({rack_of[replica] for replica in replicas}) == min(factor, len(racks))


def test_brokers_that_stop_or_have_no_directory_left_get_nothing() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.append([replace(cluster.image.brokers[2], in_controlled_shutdown=True)])
    cluster.append([replace(cluster.image.brokers[3], cordoned_log_dirs=cluster.image.brokers[3].log_dirs)])
    assert usable_brokers(cluster.image) == [UsableBroker(1, None, False)]
