"""How many tasks and topics a topology has with the topics there are, and what keeps a group from starting."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.configured import ConfiguredTopology, Status, configure
from isthmus_broker.core.group.streams.topology import Topology
from isthmus_broker.core.group.view import Topics
from isthmus_wire.errors import ErrorCode

from tests.unit.group.harness import topic
from tests.unit.group.streams.clients import internal, part, together, topology


def run(*parts: Any, **partitions: int) -> ConfiguredTopology:
    """Configure subtopologies over topics with these numbers of partitions; an underscore is a dash."""
    views = [
        topic(UUID(int=number), name.replace("_", "-"), count)
        for number, (name, count) in enumerate(partitions.items(), 1)
    ]
    return configure(Topology.of_request(topology(*parts)), Topics.of(1, views))


def counts(configured: ConfiguredTopology) -> dict[str, int]:
    """The topics to create."""
    return {each.name: each.partitions for each in configured.missing_topics}


def tasks(configured: ConfiguredTopology) -> dict[str, int]:
    assert configured.subtopologies is not None
    return {name: each.tasks for name, each in configured.subtopologies.items()}


def test_a_subtopology_has_as_many_tasks_as_its_largest_source() -> None:
    configured = run(part("0", "a", "b"), a=3, b=5)
    assert (tasks(configured), configured.is_ready) == ({"0": 5}, True)


def test_without_subtopologies_there_are_no_tasks() -> None:
    configured = configure(Topology(0, {}), Topics.of(1, []))
    assert (tasks(configured), configured.is_ready) == ({}, True)


def test_missing_source_topics_are_named() -> None:
    configured = run(part("0", "e", "a", "d", "c", "b"), a=1)
    detail = "Source topics b, c, d and 1 additional topics are missing."
    assert (configured.subtopologies, configured.problem) == (None, (Status.MISSING_SOURCE_TOPICS, detail))


def test_internal_topics_get_the_partitions_of_what_is_written_into_them() -> None:
    configured = run(
        part("0", "a", sinks=["first"]),
        part("1", "b", sinks=["second"], repartitions=[internal("first")]),
        part("2", repartitions=[internal("second")], changelogs=[internal("log", 0, 2, retention="1")]),
        a=3,
        b=4,
    )
    assert tasks(configured) == {"0": 3, "1": 4, "2": 4}
    assert counts(configured) == {"first": 3, "second": 4, "log": 4}
    assert configured.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: first, log, second")
    (log,) = (each for each in configured.missing_topics if each.name == "log")
    assert (log.replication_factor, [(each.key, each.value) for each in log.topic_configs]) == (2, [("retention", "1")])


def test_the_order_of_subtopologies_does_not_matter() -> None:
    configured = run(
        part("0", repartitions=[internal("second")]),
        part("1", sinks=["second"], repartitions=[internal("first")]),
        part("2", "a", sinks=["first"]),
        a=3,
    )
    assert counts(configured) == {"first": 3, "second": 3}


def test_prescribed_partitions_are_kept() -> None:
    configured = run(part("0", "a", sinks=["r"]), part("1", repartitions=[internal("r", 7)]), a=3)
    assert (counts(configured), tasks(configured)) == ({"r": 7}, {"0": 3, "1": 7})


def test_existing_topics_are_not_created_again() -> None:
    parts = [part("0", "a", sinks=["r"]), part("1", repartitions=[internal("r")], changelogs=[internal("log")])]
    assert counts(run(*parts, a=3, r=3)) == {"log": 3}
    assert run(*parts, a=3, r=3, log=3).is_ready
    wrong = run(*parts, a=3, r=3, log=2)
    detail = "Existing topic log has different number of partitions: expected 3, found 2"
    assert (wrong.subtopologies, wrong.problem) == (None, (Status.INCORRECTLY_PARTITIONED_TOPICS, detail))


def test_copartitioned_topics_get_the_same_partitions() -> None:
    both = part(
        "1", "b", repartitions=[internal("r")], copartitioned=[together((0,), (0,))], changelogs=[internal("log")]
    )
    assert counts(run(part("0", "a", sinks=["r"]), both, a=3, b=5)) == {"r": 5, "log": 5}
    flexible = part("1", repartitions=[internal("r"), internal("s")], copartitioned=[together((), (0, 1))])
    feeding = [part("0", "a", sinks=["r"]), part("2", "b", sinks=["s"])]
    assert counts(run(*feeding, flexible, a=3, b=5)) == {"r": 5, "s": 5}
    prescribed = part("1", repartitions=[internal("r"), internal("s", 4)], copartitioned=[together((), (0, 1))])
    assert counts(run(*feeding, prescribed, a=3, b=5)) == {"r": 4, "s": 4}
    assert counts(run(part("0", "a", copartitioned=[together()]), a=1)) == {}


@pytest.mark.parametrize(
    ("parts", "detail"),
    [
        (
            [part("0", "a", "b", copartitioned=[together((0, 1))])],
            "Following topics do not have the same number of partitions: [{a=3, b=5}]",
        ),
        (
            [part("0", "a", repartitions=[internal("r", 7)], copartitioned=[together((0,), (0,))])],
            "Number of partitions [7] of repartition topic [r] doesn't match number of partitions [3] of the source topic.",
        ),
        (
            [part("0", repartitions=[internal("r", 7), internal("s", 8)], copartitioned=[together((), (0, 1))])],
            "Following topics do not have the same number of partitions: [{r=7, s=8}]",
        ),
    ],
)
def test_topics_that_do_not_fit_together(parts: Any, detail: str) -> None:
    configured = run(*parts, a=3, b=5)
    assert configured.problem == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


_INVALID, _UNKNOWN = ErrorCode.streams_invalid_topology, ErrorCode.unknown_server_error


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([part("0")], _INVALID),
        ([part("0", sinks=["r"], repartitions=[internal("r")])], _INVALID),
        ([part("0", "a", repartitions=[internal("r")])], _INVALID),
        ([part("0", "a", copartitioned=[together((1,))])], _UNKNOWN),
        ([part("0", "a", copartitioned=[together((), (-1,))])], _UNKNOWN),
        ([part("0", "a", repartitions=[internal("r", -1)])], _UNKNOWN),
        ([part("0", "a"), part("0", "b")], _UNKNOWN),
    ],
)
def test_topologies_that_never_work(parts: Any, error: ErrorCode) -> None:
    with pytest.raises(CoordinatorError) as refusal:
        run(*parts, a=3, b=3)
    assert refusal.value.error == error


def test_topologies_are_equal_if_a_member_with_one_can_work_with_the_other() -> None:
    one = Topology.of_request(topology(part("0", "a"), part("1", "b")))
    assert one == Topology.of_request(topology(part("1", "b"), part("0", "a")))
    assert one == Topology.of_record(one.record_value())
    for other in (
        topology(part("0", "a"), part("1", "b"), epoch=1),
        topology(part("0", "a")),
        topology(part("0", "a"), part("1", "b", changelogs=[internal("log")])),
    ):
        assert one != Topology.of_request(other)
    assert one.required_topics() == {"a", "b"}


_NAMES = st.sampled_from("abcd")
_INTERNAL = st.builds(internal, _NAMES, st.integers(-1, 3))
_TOGETHER = st.builds(
    together, st.lists(st.integers(-1, 2), max_size=2).map(tuple), st.lists(st.integers(-1, 2), max_size=2).map(tuple)
)


@st.composite
def _parts(draw: st.DrawFn) -> list[Any]:
    return [
        part(
            name,
            *draw(st.lists(_NAMES, max_size=2)),
            sinks=draw(st.lists(_NAMES, max_size=2)),
            repartitions=draw(st.lists(_INTERNAL, max_size=2)),
            changelogs=[internal(each) for each in draw(st.lists(_NAMES, max_size=1))],
            copartitioned=draw(st.lists(_TOGETHER, max_size=2)),
        )
        for name in draw(st.lists(st.sampled_from("012"), min_size=1, max_size=3))
    ]


@given(parts=_parts(), existing=st.dictionaries(_NAMES, st.integers(1, 3)))
def test_any_topology_is_configured_or_refused(parts: list[Any], existing: dict[str, int]) -> None:
    try:
        configured = run(*parts, **existing)
    except CoordinatorError:
        return
    assert (configured.subtopologies is None) <= (configured.problem is not None)
    assert bool(configured.missing_topics) == (
        configured.problem is not None and configured.problem[0] is Status.MISSING_INTERNAL_TOPICS
    )
    assert all(each.partitions > 0 for each in configured.missing_topics)
