"""Records the responses of Apache Kafka again: `python -m tests.conformance.record [GROUP...]`."""

import argparse
import tempfile
from pathlib import Path

from tests.conformance.oracle.exchanges import groups
from tests.conformance.oracle.recording import SILENCE, converse, save
from tests.conformance.oracle.talk import Target
from tests.kafka import fetch, running_kafka


def record(name: str) -> int:
    """Record one group with a fresh Apache Kafka; returns the number of its responses."""
    group = groups()[name]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with running_kafka(directory, group.settings_in(directory)) as kafka:
            recording = converse(group, Target("127.0.0.1", kafka.port, directory))
    silent = [exchange for exchange, steps in recording.items() if any(step.asked == SILENCE for step in steps)]
    assert not silent, f"Apache Kafka did not answer in {silent}: leave such a request out of the script"
    save(name, recording)
    return sum(map(len, recording.values()))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", nargs="*", help=f"of {', '.join(groups())}; by default all")
    fetch()
    for name in parser.parse_args().group or groups():
        print(f"{name}: {record(name)} answers", flush=True)


if __name__ == "__main__":
    main()
