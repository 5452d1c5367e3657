"""Runs the lives of many seeds, and reports the first finding."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tests.sim.canary import ImpatientNode
from tests.sim.linker.life import LinkLife
from tests.sim.mirror.life import MirrorLife
from tests.sim.raft_life import RaftLife
from tests.sim.replication.canaries import CANARIES, planted
from tests.sim.replication.life import ReplicationLife
from tests.sim.world import Violation, World


class Life(Protocol):
    """One cluster, from its start to its recovery."""

    @property
    def world(self) -> World: ...

    def run(self) -> None:
        """Run it; raises on a defect."""


@dataclass(frozen=True, slots=True)
class Finding:
    seed: int
    what: str


class Kind(NamedTuple):
    """A kind of world, with the unchanged product or with a planted defect."""

    make: Callable[[int, bool], Life]
    """Creates a life from a seed, with or without a trace."""
    canary: str | None = None

    def live(self, seed: int, *, traced: bool = False) -> tuple[World, Finding | None]:
        """The defect in one life."""
        with planted(self.canary if self.canary in CANARIES else None):
            life = self.make(seed, traced)
            try:
                life.run()
            except Violation as violation:
                return life.world, Finding(seed, str(violation))
            except Exception:  # noqa: BLE001 - a failed assertion or any other crash of a core is what the sweep looks for
                return life.world, Finding(seed, traceback.format_exc())
        return life.world, None


def _raft(seed: int, traced: bool) -> Life:
    return RaftLife(seed, traced=traced)


def _impatient_raft(seed: int, traced: bool) -> Life:
    return RaftLife(seed, traced=traced, make_node=ImpatientNode)


def _replication(seed: int, traced: bool) -> Life:
    return ReplicationLife(seed, traced=traced)


def _link(seed: int, traced: bool) -> Life:
    return LinkLife(seed, traced=traced)


def _careless_link(seed: int, traced: bool) -> Life:
    return LinkLife(seed, traced=traced, checks_expected_end=False)


def _mirror(seed: int, traced: bool) -> Life:
    return MirrorLife(seed, traced=traced)


def _trusting_mirror(seed: int, traced: bool) -> Life:
    return MirrorLife(seed, traced=traced, trusting=True)


def _blind_target(seed: int, traced: bool) -> Life:
    return MirrorLife(seed, traced=traced, blind=True)


KINDS: Final[Mapping[str, Mapping[str | None, Kind]]] = {
    "raft": {None: Kind(_raft), "impatient-node": Kind(_impatient_raft, "impatient-node")},
    "link": {None: Kind(_link), "append-anywhere": Kind(_careless_link, "append-anywhere")},
    "mirror": {
        None: Kind(_mirror),
        "believe-answers": Kind(_trusting_mirror, "believe-answers"),
        "compare-ends-alone": Kind(_blind_target, "compare-ends-alone"),
    },
    "replication": {canary: Kind(_replication, canary) for canary in (None, *CANARIES)},
}
"""By world and canary."""
RAFT: Final = KINDS["raft"][None]
REPLICATION: Final = KINDS["replication"][None]
LINK: Final = KINDS["link"][None]
MIRROR: Final = KINDS["mirror"][None]


def sweep(seeds: Iterable[int], kind: Kind = RAFT) -> Finding | None:
    """The first finding among the seeds."""
    for seed in seeds:
        _, finding = kind.live(seed)
        if finding is not None:
            return finding
    return None


def trace(seed: int, kind: Kind = RAFT) -> tuple[list[str], Finding | None]:
    """The events of one life."""
    world, finding = kind.live(seed, traced=True)
    assert world.trace is not None
    return world.trace, finding
