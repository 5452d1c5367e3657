"""`python -m bench.recovery`: how long a node with a large log directory takes to serve, and what it reads for that.

Times are from exec to the line `ready`. Pages of the data are dropped from memory before a cold start; the program's own are not.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from bench.report import conditions, save
from tests.node import Node
from tests.process import ISTHMUS
from tests.system.filled import bytes_read, fill, forget_pages

ROUNDS: Final = 5
LOGS: Final = 100
LOG_BYTES: Final = 100 << 20
SEGMENT_BYTES: Final = 10 << 20
PAST_BYTES: Final = 200 << 20
"""Written after the recovery point, before each SIGKILL."""
GOAL_SECONDS: Final = 2.0
_FACTS: Final = ("date", "rounds", "cpu", "cores", "memory GB", "kernel", "python", "Isthmus", "load average before")


class ExecutedNode(Node):
    """A node as its users start it, with an interpreter of its own."""

    def _fork(self, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        self._spawn([ISTHMUS, *arguments], environment)


@dataclass(slots=True)
class Starts:
    """One kind of start, round by round."""

    name: str
    seconds: list[float] = field(default_factory=list)
    megabytes_read: list[float] = field(default_factory=list)

    def measure(self, node: Node) -> None:
        """Start the node and note what it took."""
        began = time.monotonic()
        node.start()
        self.seconds.append(round(time.monotonic() - began, 3))
        self.megabytes_read.append(round(bytes_read(node.pid) / 1e6, 1))

    def row(self) -> str:
        """A line of the table."""
        seconds, read = statistics.median(self.seconds), statistics.median(self.megabytes_read)
        return f"| {self.name} | {seconds:.2f} | {max(self.seconds):.2f} | {read:.1f} |"


def main() -> None:
    """Measure, and write the results."""
    facts = conditions(ROUNDS)
    with tempfile.TemporaryDirectory(prefix="isthmus-recovery-") as scratch:
        directory = Path(scratch)
        node = ExecutedNode(directory / "node")
        empty = Starts("empty directory")
        _rounds(empty, node, lambda: None)
        total = fill(node, "filled", LOGS, LOG_BYTES, SEGMENT_BYTES)
        print(f"filled {total / 1e9:.1f} GB in {LOGS} logs", flush=True)
        warm, cold = Starts("clean end, pages in memory"), Starts("clean end, pages dropped")
        _rounds(warm, node, lambda: None)
        _rounds(cold, node, lambda: forget_pages(directory))
        crashed = Starts(f"SIGKILL with {PAST_BYTES >> 20} MiB past the recovery point")
        _crashes(crashed, node)
    _write([empty, warm, cold, crashed], facts, total)


def _rounds(starts: Starts, node: Node, prepare: Callable[[], None]) -> None:
    for _ in range(ROUNDS):
        prepare()
        starts.measure(node)
        node.stop()


def _crashes(starts: Starts, node: Node) -> None:
    for _ in range(ROUNDS):
        node.start()
        producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "log_level": 2})
        for number in range(PAST_BYTES // 1024):
            producer.produce("filled", bytes(1024), partition=number % LOGS)
            if number % 1000 == 0:
                producer.poll(0.01)
        assert producer.flush(120) == 0
        node.kill()
        starts.measure(node)
        node.stop()


def _write(measured: list[Starts], machine: dict[str, Any], total: int) -> None:
    facts = {
        **{name: machine[name] for name in _FACTS},
        "data": f"{total / 1e9:.1f} GB in {LOGS} logs, segments of {SEGMENT_BYTES >> 20} MiB",
        "goal": f"a clean directory serves in {GOAL_SECONDS:.0f} s",
    }
    data = {"conditions": facts, "starts": [asdict(starts) for starts in measured]}
    table = [
        "# Start with a large log directory",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| start | median s | worst s | MB read, the program included |",
        "|---|---|---|---|",
        *(starts.row() for starts in measured),
    ]
    print(save("recovery", data, table).read_text())


if __name__ == "__main__":
    main()
