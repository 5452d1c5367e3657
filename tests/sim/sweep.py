"""Many lives in a row: seeds in, the first finding out."""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.sim.raft_life import MakeNode, RaftLife
from tests.sim.raft_node import RaftNode
from tests.sim.world import Violation


@dataclass(frozen=True, slots=True)
class Finding:
    seed: int
    what: str


def run_seed(seed: int, make_node: MakeNode = RaftNode) -> Finding | None:
    try:
        RaftLife(seed, make_node=make_node).run()
    except Violation as violation:
        return Finding(seed, str(violation))
    except Exception:  # noqa: BLE001 - a failed assertion or any other crash of a core is what the sweep looks for
        return Finding(seed, traceback.format_exc())
    return None


def sweep(
    seeds: Iterable[int], make_node: MakeNode = RaftNode, progress: Callable[[int], None] = lambda _: None
) -> Finding | None:
    """The first finding among the seeds."""
    for done, seed in enumerate(seeds, 1):
        finding = run_seed(seed, make_node)
        if finding is not None:
            return finding
        progress(done)
    return None


def trace(seed: int, make_node: MakeNode = RaftNode) -> tuple[list[str], Finding | None]:
    """Everything that happened in one life."""
    life = RaftLife(seed, traced=True, make_node=make_node)
    finding = None
    try:
        life.run()
    except Violation as violation:
        finding = Finding(seed, str(violation))
    except Exception:  # noqa: BLE001 - as above
        finding = Finding(seed, traceback.format_exc())
    assert life.world.trace is not None
    return life.world.trace, finding
