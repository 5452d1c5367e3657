"""`python -m bench.soak [--minutes M] [--jobs J] [FAULT ...]`: stretched clusters under load, each struck by one kind of fault.

For each kind of fault a cluster is struck again and again for that long. After each round the replicas are compared byte for byte and the
node that was struck leads; at the end the log must explain what all clients recorded. For `exactly-once`, applications of each kind
consume, transform and produce in transactions, while they and the brokers are killed and paused. For `stall`, nodes of one region stop
for 300 ms, one after another, and none may be fenced. The first violation ends the command, and its directory stays. As root, full disks
are volumes that are really full. Results of chosen faults are in a file of their own.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.report import conditions, save
from tests.exactly_once import faults as exactly_once
from tests.exactly_once.applications import KINDS
from tests.exactly_once.load import running_load, workload_of
from tests.node import COMBINED as COMBINED_ROLES
from tests.node import Cluster, running_cluster
from tests.system.fault_load import Load, load
from tests.system.faults import FAULTS, HOME, REGIONS, TOPOLOGY, combined_round, one_round, stepped_clocks, volume
from tests.system.stalls import LAN, ONE_REGION, Stall, assert_none_was_fenced, stall
from tests.system.stretched import Stretched, running

COMBINED: Final = "combined"
EXACTLY_ONCE: Final = "exactly-once"
STALL: Final = "stall"
NAMES: Final = (*FAULTS, COMBINED, EXACTLY_ONCE, STALL)
PAUSE_SECONDS: Final = 0.02
"""Between the records of a producer: a history of hours must fit in memory."""
OVERLAP_SECONDS: Final = 4.0
_FACTS: Final = ("date", "cpu", "cores", "memory GB", "kernel", "python", "Isthmus", "load average before")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cluster survived."""

    fault: str
    seed: int
    minutes: float
    rounds: int
    records: int
    commits: int
    resent: int
    """Records that librdkafka sent again under a new producer epoch, although the first attempt had been appended."""

    def row(self) -> str:
        return f"| {self.fault} | {self.minutes:.1f} | {self.rounds} | {self.records:,} | {self.commits:,} | {self.resent} | {self.seed} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Strike clusters under load.")
    parser.add_argument("fault", nargs="*", help=f"of {', '.join(NAMES)}; by default all")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each kind of fault (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="clusters at the same time (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of nodes and moments (%(default)s)")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.fault if name not in NAMES]
    if unknown:
        parser.error(f"no fault is named {unknown[0]}; the faults are {', '.join(NAMES)}")
    facts = conditions(1)
    chosen = {fact: facts[fact] for fact in _FACTS} | {"clusters at the same time": given.jobs}
    outcomes = []
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as processes:
        for outcome in processes.map(soak, given.fault or NAMES, repeat(given.minutes), repeat(given.seed)):
            outcomes.append(outcome)
            print(outcome.row(), flush=True)
            _write(outcomes, chosen, "-".join(["soak", *given.fault]))
    return 0


def soak(name: str, minutes: float, seed: int) -> Outcome:
    """Strike one cluster with one kind of fault, or with all, for that long."""
    random = Random(f"{name} {seed}")
    if name == EXACTLY_ONCE:
        return _soak_transactions(minutes, seed, random)
    if name == STALL:
        return _soak_stalls(minutes, seed, random)
    with _cluster(name, TOPOLOGY) as cluster, load(cluster, HOME, PAUSE_SECONDS) as running_load:
        start, rounds = time.monotonic(), 0
        while time.monotonic() < start + 60 * minutes:
            if random.random() < 0.5:
                running_load.give_leadership_to(random.choice(sorted(cluster.ids)))
            _strike(running_load, name, random)
            rounds += 1
        taken = (time.monotonic() - start) / 60
    return Outcome(
        fault=name,
        seed=seed,
        minutes=taken,
        rounds=rounds,
        records=running_load.records(),
        commits=running_load.committer.confirmed,
        resent=running_load.resent(),
    )


def _soak_transactions(minutes: float, seed: int, random: Random) -> Outcome:
    """Applications of each kind for a share of the time."""
    start, rounds, records, commits = time.monotonic(), 0, 0, 0
    with _three_nodes(EXACTLY_ONCE) as (directory, cluster):
        for number, kind in enumerate(KINDS, 1):
            workload = workload_of(kind, cluster.bootstrap, kind)
            with running_load(kind, workload, directory, PAUSE_SECONDS) as transactions:
                while time.monotonic() < start + 60 * minutes * number / len(KINDS):
                    exactly_once.one_round(transactions, cluster, random.choice(exactly_once.FAULTS), random)
                    rounds += 1
            records, commits = records + transactions.progress(), commits + transactions.transactions()
    return Outcome(EXACTLY_ONCE, seed, (time.monotonic() - start) / 60, rounds, records, commits, resent=0)


def _soak_stalls(minutes: float, seed: int, random: Random) -> Outcome:
    """Stalls of random nodes, with the settings of `isthmus up`."""
    with _cluster(STALL, ONE_REGION) as cluster, load(cluster, LAN, PAUSE_SECONDS) as running_load:
        start, stalls = time.monotonic(), list[Stall]()
        while time.monotonic() < start + 60 * minutes:
            stalls.append(stall(cluster, random))
            assert_none_was_fenced(cluster, stalls)
        taken = (time.monotonic() - start) / 60
    records, commits = running_load.records(), running_load.committer.confirmed
    return Outcome(STALL, seed, taken, len(stalls), records, commits, running_load.resent())


def _strike(running_load: Load, name: str, random: Random) -> None:
    if name == COMBINED:
        combined_round(running_load, random, OVERLAP_SECONDS)
    else:
        one_round(running_load, FAULTS[name], random)


@contextmanager
def _cluster(name: str, topology: str) -> Iterator[Stretched]:
    directory = _new_directory(name)
    with ExitStack() as resources:
        if os.geteuid() == 0 and name in ("full-disk", COMBINED):
            for region in REGIONS:
                resources.enter_context(volume(directory / f"{region}-1"))
        resources.enter_context(stepped_clocks())
        cluster = resources.enter_context(running(directory, topology))
        with _kept_on_failure(name, directory):
            yield cluster
    shutil.rmtree(directory)


@contextmanager
def _three_nodes(name: str) -> Iterator[tuple[Path, Cluster]]:
    """A cluster of three nodes, and a directory for the applications."""
    directory = _new_directory(name)
    cluster = running_cluster(directory / "cluster", [COMBINED_ROLES] * 3, settings=exactly_once.CLUSTER_SETTINGS)
    with cluster as started, _kept_on_failure(name, directory):
        yield directory, started
    shutil.rmtree(directory)


def _new_directory(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"isthmus-soak-{name}-"))


@contextmanager
def _kept_on_failure(name: str, directory: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        print(f"\n{name} failed; see {_kept(directory)}", file=sys.stderr, flush=True)
        raise


def _kept(directory: Path) -> Path:
    """Copy a directory from volumes that are about to vanish; sockets cannot be copied."""
    return Path(shutil.copytree(directory, f"{directory}-failed", ignore=shutil.ignore_patterns("*.socket")))


def _write(outcomes: Sequence[Outcome], facts: dict[str, Any], stem: str) -> None:
    facts["load"] = "3 idempotent producers, one to a compacted topic, a reader, a group's commits; small segments"
    data = {"conditions": facts, "faults": [asdict(outcome) for outcome in outcomes]}
    table = [
        "# Faults under load",
        "",
        "A cluster of three nodes in three regions, struck again and again. No acknowledged record or commit was lost or reordered, and",
        "no record was doubled within a producer epoch; after each round the replicas were the same, byte for byte, and the node that had",
        "been struck led. *Sent again*: librdkafka took records for lost that had been appended, and wrote them again under a new epoch.",
        "",
        "*exactly-once*: a cluster of three nodes with applications on librdkafka, Java's client and Kafka Streams, one after another;",
        "records of their output, and the transactions of the first two. Every input record took effect once and in order, and no",
        "transaction hung.",
        "",
        "*stall*: a cluster of three nodes in one region with the settings of `isthmus up`; every 1.3 s one of them stopped for 300 ms.",
        "No broker was fenced.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| fault | minutes | rounds | records acknowledged | commits confirmed | sent again | seed |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *(outcome.row() for outcome in outcomes),
    ]
    save(stem, data, table)


if __name__ == "__main__":
    sys.exit(main())
