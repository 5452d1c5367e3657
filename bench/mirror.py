"""`python -m bench.mirror`: the mirror beside MirrorMaker 2, between the same two clusters, measured as the linker is."""

import argparse
import subprocess
from pathlib import Path
from typing import Final

from bench import java_load, report
from bench.__main__ import order, say, scratch
from bench.brokers import ISTHMUS, Broker, install
from bench.linker import FIGURES, RECORD_BYTES, RECORDS, ROUNDS, SCENARIO, TOPIC, by_mirror_maker, clusters, measure
from bench.mirror_maker import fetch
from bench.native_load import delete_topic
from bench.scenarios import Figure

_FIGURES: Final = {**FIGURES, "copied by CPU": Figure("MB/CPU-s", more_is_better=True, target=10.0)}
_HEADING: Final = report.Heading(
    "The mirror beside MirrorMaker 2",
    "the same source and target on one machine in the same run, the order changing every round",
    "MirrorMaker 2",
    "",
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    fetch()
    facts = report.conditions(rounds)
    rows = report.Rows()
    with scratch() as directory, clusters(directory) as (source, target):
        java_load.produce(source.bootstrap, TOPIC, RECORDS, RECORD_BYTES, 0)
        for number in range(rounds):
            for system in order(number):
                copy = _by_mirror if system == ISTHMUS else by_mirror_maker
                figures = copy(directory, source, target, number)
                say(number, SCENARIO, system, figures)
                rows.add(SCENARIO, _FIGURES, system, figures)
    print(report.write(rows.complete(), facts, "mirror", _HEADING).read_text())


def _by_mirror(directory: Path, source: Broker, target: Broker, number: int) -> dict[str, float]:
    alias = f"mirror{number}"
    properties = directory / f"{alias}.properties"
    properties.write_text(
        f"clusters = {alias}, target\n{alias}.bootstrap.servers = {source.bootstrap}\n"
        f"target.bootstrap.servers = {target.bootstrap}\n{alias}->target.enabled = true\n{alias}->target.topics = {TOPIC}\n"
    )
    with (directory / f"{alias}.log").open("wb") as log:
        mirror = subprocess.Popen([install() / "isthmus", "mirror", "-c", properties], stdout=log, stderr=log)
        try:
            return measure(target, f"{alias}.{TOPIC}", mirror)
        finally:
            mirror.terminate()
            mirror.wait()
            delete_topic(target.bootstrap, f"{alias}.{TOPIC}")


if __name__ == "__main__":
    main()
