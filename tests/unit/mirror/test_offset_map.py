"""The map against a model, both ways, for every offset."""

from hypothesis import given
from hypothesis import strategies as st
from isthmus_mirror.core.offset_map import OffsetMap, Run


@st.composite
def truths(draw: st.DrawFn) -> list[int]:
    """The source's offset of each record of a copy."""
    steps = draw(st.lists(st.one_of(st.just(1), st.integers(1, 5)), min_size=1, max_size=200))
    found, at = [], draw(st.integers(0, 10)) - 1
    for step in steps:
        at += step
        found.append(at)
    return found


def mapped(truth: list[int]) -> OffsetMap:
    runs = [Run(up, down) for down, up in enumerate(truth) if down == 0 or truth[down - 1] != up - 1]
    return OffsetMap(runs, len(truth))


@given(truths())
def test_every_offset_is_exact_both_ways(truth: list[int]) -> None:
    known = mapped(truth)
    assert [known.to_upstream(down) for down in range(len(truth))] == truth
    for up in range(truth[-1] + 3):
        assert known.to_downstream(up) == next((down for down, u in enumerate(truth) if u >= up), len(truth))
    assert known.next_upstream == truth[-1] + 1 == known.to_upstream(len(truth))
    assert known.to_upstream(len(truth) + 1) is None


def test_an_empty_map() -> None:
    known = OffsetMap()
    assert (known.to_downstream(7), known.to_upstream(0), known.next_upstream, len(known)) == (0, None, 0, 0)
