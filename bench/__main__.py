"""`python -m bench`: both systems, the same load, alternating which goes first."""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench import profile, report
from bench.brokers import SYSTEMS, Broker, make
from bench.scenarios import START_FIGURES, START_NAME, Scenario, full, quick, start, throughput

_ROUNDS: Final = 3


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"default {_ROUNDS}, with --quick 1")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name contains this")
    parser.add_argument("--quick", action="store_true", help="one of each kind, short; results in quick.*")
    parser.add_argument("--profile", action="store_true", help="only where the node's CPU goes")
    arguments = parser.parse_args()
    with scratch() as directory:
        if not arguments.profile:
            rounds = arguments.rounds or (1 if arguments.quick else _ROUNDS)
            scenarios = [one for one in (quick() if arguments.quick else full()) if arguments.only in one.name]
            _measure(directory, scenarios, rounds, arguments)
        if arguments.profile or not (arguments.quick or arguments.only):
            print(profile.write(directory / "profile"))


def _measure(directory: Path, scenarios: list[Scenario], rounds: int, arguments: argparse.Namespace) -> None:
    facts = report.conditions(rounds)
    rows = report.Rows()
    if arguments.only in START_NAME:
        _measure_starts(directory, rows, rounds)
    if scenarios:
        measure_running(directory, rows, scenarios, rounds, [throughput(1024, 16, "none", 400)])
    stem = "quick" if arguments.quick else "results"
    table = report.write(rows.complete(), facts, f"only-{arguments.only}" if arguments.only else stem)
    print(table.read_text())


def _measure_starts(directory: Path, rows: report.Rows, rounds: int) -> None:
    for number in range(rounds):
        for system in order(number):
            figures = start(system, directory / f"start-{number}-{system}")
            say(number, START_NAME, system, figures)
            rows.add(START_NAME, START_FIGURES, system, figures)


def measure_running(
    directory: Path, rows: report.Rows, scenarios: list[Scenario], rounds: int, warm_ups: Sequence[Scenario]
) -> None:
    """Both systems at once, one measurement at a time."""
    with ExitStack() as running:
        brokers: dict[str, Broker] = {}
        for system in SYSTEMS:
            brokers[system] = make(system, directory / system)
            brokers[system].start()
            running.callback(brokers[system].stop)
        for broker in brokers.values():
            broker.await_serving()
            for warm_up in warm_ups:
                say(0, "warm-up", broker.name, warm_up.measure(broker))
        for number in range(rounds):
            for scenario in scenarios:
                for system in order(number):
                    figures = scenario.measure(brokers[system])
                    say(number, scenario.name, system, figures)
                    rows.add(scenario.name, scenario.figures, system, figures)


def order(number: int) -> tuple[str, ...]:
    """Who goes first alternates."""
    return SYSTEMS if number % 2 == 0 else SYSTEMS[::-1]


def say(number: int, scenario: str, system: str, figures: dict[str, float]) -> None:
    """One line, as soon as it is known."""
    values = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
    print(f"{time.strftime('%H:%M:%S')} round {number + 1}, {scenario}, {system}: {values}", flush=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for data, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="isthmus-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
