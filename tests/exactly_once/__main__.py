"""`python -m tests.exactly_once [--system kafka] [--application KIND]... [--rounds N] [FAULT...]`: faults under applications."""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from tests.exactly_once.applications import KINDS
from tests.exactly_once.faults import CLUSTER_SETTINGS, FAULTS, Cluster, one_round
from tests.exactly_once.load import running_load, workload_of
from tests.kafka import running_kafka_cluster
from tests.node import COMBINED, running_cluster

_NODES: Final = 3


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=__doc__)
    parser.add_argument("fault", nargs="*", default=FAULTS, help=f"of {', '.join(FAULTS)}; by default all")
    parser.add_argument("--system", choices=("isthmus", "kafka"), default="isthmus")
    parser.add_argument("--application", choices=KINDS, action="append", help="by default each")
    parser.add_argument("--rounds", type=int, default=1, help="of all faults (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="exactly-once-"))
    print(f"logs and data are in {directory}", flush=True)
    with _running(given.system, directory / "cluster") as cluster:
        for kind in given.application or KINDS:
            with running_load(kind, workload_of(kind, cluster.bootstrap, kind), directory) as load:
                for number in range(given.rounds):
                    for fault in given.fault:
                        began = time.monotonic()
                        one_round(load, cluster, fault, Random(f"{given.seed} {number} {fault}"))
                        print(f"{kind}: {fault}, {time.monotonic() - began:.1f} s", flush=True)
            print(f"{kind}: {load.progress()} records had their effect exactly once", flush=True)


@contextmanager
def _running(system: str, directory: Path) -> Iterator[Cluster]:
    if system == "kafka":
        with running_kafka_cluster(directory, _NODES, CLUSTER_SETTINGS) as kafka:
            yield kafka
    else:
        with running_cluster(directory, [COMBINED] * _NODES, settings=CLUSTER_SETTINGS) as isthmus:
            yield isthmus


if __name__ == "__main__":
    main()
