"""Elections, in-sync replicas, groups and links as transcripts that are read without reading code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.scripts import group_world, isr_world, link_world, raft_world
from tests.scripts.transcript import check, run

HERE: Final = Path(__file__).parent
WORLDS: Final[dict[str, Callable[[], Any]]] = {
    "elections": raft_world.World,
    "isr": isr_world.World,
    "groups": group_world.World,
    "links": link_world.World,
}
SCRIPTS: Final = sorted(HERE.glob("*/*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_the_transcript_says_happens(path: Path) -> None:
    check(path, WORLDS[path.parent.name]())


def test_every_world_has_transcripts() -> None:
    assert {path.parent.name for path in SCRIPTS} == set(WORLDS)


def test_a_transcript_with_another_outcome_fails() -> None:
    text = "lead\n----\nisr [1, 2, 3], log end 0, high watermark 1\n"
    assert run(text, isr_world.World()) == "lead\n----\nisr [1, 2, 3], log end 0, high watermark 0\n"
