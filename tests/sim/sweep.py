"""Runs the lives of many seeds, and reports the first finding."""

import gc
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple, Protocol

from tests.sim.canary import ImpatientNode
from tests.sim.cluster import canaries
from tests.sim.cluster.life import ClusterLife
from tests.sim.cluster.plan import Rates
from tests.sim.exchange import canaries as exchange
from tests.sim.exchange.life import ExchangeLife
from tests.sim.linker.life import LinkLife
from tests.sim.mirror.life import MirrorLife
from tests.sim.raft_life import RaftLife
from tests.sim.storage import canaries as storage
from tests.sim.storage.life import Fault, StorageLife
from tests.sim.world import Violation, World

EXCHANGE_SECONDS: Final = (1.0, 2.0, 4.0)
"""For how long two clusters that exchange a topic have faults."""


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
    plant: Callable[[], AbstractContextManager[object]] = nullcontext
    """Plants the defect in the product for the time of a life."""
    violations: tuple[str, ...] = ()
    """What the defect must cause: a line of the finding begins with one of these. Empty for any finding."""
    begins_at: int = 0
    """The seed at which the search for a planted defect begins."""

    def counts(self, finding: Finding | None) -> bool:
        """Whether a finding is what this kind looks for: a crash of a canary proves nothing."""
        return finding is not None and (
            not self.violations or any(line.startswith(self.violations) for line in finding.what.splitlines())
        )

    def live(self, seed: int, *, traced: bool = False) -> tuple[World, Finding | None]:
        """The defect in one life."""
        with self.plant():
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


def _cluster(seed: int, traced: bool) -> Life:
    return ClusterLife(seed, traced=traced)


def _cluster_with_a_canary(seed: int, traced: bool, rates: Rates | None, has_transactions: bool | None) -> Life:
    """Longer than most lives, and with the faults that the defect needs."""
    return ClusterLife(seed, traced=traced, rates=rates, has_transactions=has_transactions, faults_seconds=10.0)


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


def _exchange(seed: int, traced: bool) -> Life:
    return ExchangeLife(seed, traced=traced, turmoil_seconds=EXCHANGE_SECONDS[seed % len(EXCHANGE_SECONDS)])


def _exchange_with_a_canary(seed: int, traced: bool) -> Life:
    return ExchangeLife(seed, traced=traced)


def _storage(seed: int, traced: bool, faults: Sequence[Fault] = ()) -> Life:
    return StorageLife(seed, traced=traced, faults=faults)


KINDS: Final[Mapping[str, Mapping[str | None, Kind]]] = {
    "raft": {None: Kind(_raft), "impatient-node": Kind(_impatient_raft, "impatient-node")},
    "link": {None: Kind(_link), "append-anywhere": Kind(_careless_link, "append-anywhere")},
    "mirror": {
        None: Kind(_mirror),
        "believe-answers": Kind(_trusting_mirror, "believe-answers"),
        "compare-ends-alone": Kind(_blind_target, "compare-ends-alone"),
    },
    "exchange": {
        None: Kind(_exchange),
        **{
            name: Kind(
                _exchange_with_a_canary, name, partial(exchange.planted, name), canary.violations, canary.begins_at
            )
            for name, canary in exchange.CANARIES.items()
        },
    },
    "cluster": {
        None: Kind(_cluster),
        **{
            name: Kind(
                partial(_cluster_with_a_canary, rates=canary.rates, has_transactions=canary.has_transactions),
                name,
                partial(canaries.planted, name),
                canary.violations,
                canary.begins_at,
            )
            for name, canary in canaries.CANARIES.items()
        },
    },
    "storage": {
        None: Kind(_storage),
        **{
            name: Kind(partial(_storage, faults=canary.faults), name, partial(storage.planted, name), canary.violations)
            for name, canary in storage.CANARIES.items()
        },
    },
}
"""By world and canary."""
RAFT: Final = KINDS["raft"][None]
CLUSTER: Final = KINDS["cluster"][None]
LINK: Final = KINDS["link"][None]
MIRROR: Final = KINDS["mirror"][None]
EXCHANGE: Final = KINDS["exchange"][None]


def sweep(seeds: Iterable[int], kind: Kind = RAFT) -> Finding | None:
    """The first finding among the seeds."""
    _spare_modules()
    for seed in seeds:
        _, finding = kind.live(seed)
        if kind.counts(finding):
            return finding
    return None


def search(count: int, kind: Kind) -> Finding | None:
    """A finding among the first `count` seeds. The search begins at a seed that is known to find it; the lives before it take minutes."""
    return sweep([*range(kind.begins_at, count), *range(kind.begins_at)], kind)


@cache
def _spare_modules() -> None:
    """Let the garbage collector no longer look through what was imported, which takes a sixteenth of a life."""
    gc.collect()
    gc.freeze()


def trace(seed: int, kind: Kind = RAFT) -> tuple[list[str], Finding | None]:
    """The events of one life."""
    world, finding = kind.live(seed, traced=True)
    assert world.trace is not None
    return world.trace, finding
