"""Records the responses of Apache Kafka again: `python -m tests.conformance.record [GROUP...]`.

With `--choices` it records instead what a node responds where it differs by choice.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.oracle.compare import choice_of, differences
from tests.conformance.oracle.exchanges import groups
from tests.conformance.oracle.recording import SILENCE, converse, load, save, save_choices
from tests.conformance.oracle.targets import isthmus, kafka
from tests.kafka import fetch


def record(name: str) -> int:
    """Record one group with a fresh Apache Kafka; returns the number of its responses."""
    group = groups()[name]
    with tempfile.TemporaryDirectory() as directory, kafka(group, Path(directory)) as target:
        recording = converse(group, target)
    silent = [exchange for exchange, steps in recording.items() if any(step.asked == SILENCE for step in steps)]
    assert not silent, f"Apache Kafka did not answer in {silent}: leave such a request out of the script"
    save(name, recording)
    return sum(map(len, recording.values()))


def record_choices() -> int:
    """Record our own answers where they differ by choice; returns their number."""
    ours: dict[str, Any] = {}
    for name, group in groups().items():
        with tempfile.TemporaryDirectory() as directory, isthmus(group, Path(directory)) as target:
            found = differences(name, load(name), converse(group, target))
        ours |= {difference.where: difference.node for difference in found if choice_of(difference) is not None}
    save_choices(ours)
    return len(ours)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", nargs="*", help=f"of {', '.join(groups())}; by default all")
    parser.add_argument(
        "--choices", action="store_true", help="record a node's own answers where they differ by choice"
    )
    if parser.parse_args().choices:
        print(f"{record_choices()} answers differ by choice")
        return
    fetch()
    for name in parser.parse_args().group or groups():
        print(f"{name}: {record(name)} answers", flush=True)


if __name__ == "__main__":
    main()
