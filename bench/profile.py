"""Where the node's CPU goes: loads of the bench against a node under cProfile.

The profiler makes every Python call dearer and leaves C code as it is, so the share of small functions is overstated:
the order is what counts. Times are of the CPU. What the event loop and the kernel do for it, receiving above all, is in
the line of the loop's `run`; compiling and building classes is the start.
"""

import io
import pstats
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench import java_load, native_load
from bench.brokers import ISTHMUS, Broker, install, make
from bench.report import RESULTS

_RECORDS: Final = 400_000
_SMALL_REQUESTS: Final = 60_000
_LINES: Final = 25
_TOPIC: Final = "profiled"
_REMARK: Final = (__doc__ or "").partition("\n\n")[2].strip()
"""How to read a profile."""
_UNDER_PROFILER: Final = """
import cProfile, sys, time
from isthmus_cli.main import main

sys.argv[0] = "isthmus"
profile = cProfile.Profile(time.process_time)
try:
    profile.runcall(main)
finally:
    profile.dump_stats({!r})
"""


class Load(NamedTuple):
    """What a node is profiled under."""

    title: str
    run: Callable[[Broker], object]
    prepare: Callable[[Broker], object] = lambda _broker: None


def write(directory: Path) -> Path:
    """A node each for produce, consume and small requests."""
    loads = [
        Load(f"Produce: {_RECORDS:,} records of 1 KiB, 16 partitions, batches of 64 KiB", _produce),
        Load("Consume: the same records", _consume, _produce),
        Load(f"Unbatched produce: {_SMALL_REQUESTS:,} requests, many in flight", _unbatched),
    ]
    return write_page(directory, "profile", "Where the CPU of a node goes", loads)


def write_page(directory: Path, stem: str, title: str, loads: Iterable[Load]) -> Path:
    """The profile of each load on a node of its own; returns the page's path."""
    text = f"# {title}\n\n{_REMARK}\n"
    for number, load in enumerate(loads):
        text += f"\n## {load.title}\n\n```\n{_profile(directory / f'profile-{number}', load)}\n```\n"
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{stem}.md"
    path.write_text(text)
    return path


def _produce(broker: Broker) -> None:
    java_load.produce(broker.bootstrap, _TOPIC, _RECORDS, 1024, 0, batch_size="65536")


def _consume(broker: Broker) -> None:
    java_load.consume(broker.bootstrap, _TOPIC, _RECORDS)


def _unbatched(broker: Broker) -> None:
    native_load.unbatched_requests_per_second(broker.bootstrap, _TOPIC, _SMALL_REQUESTS)


def _profile(directory: Path, load: Load) -> str:
    """The functions of a node that take the most CPU time under a load; what is prepared is not counted."""
    broker = make(ISTHMUS, directory)
    stats = directory / "stats"
    with _running(broker):
        native_load.create_topic(broker.bootstrap, _TOPIC, 16)
        load.prepare(broker)
    broker.command = [str(install() / "python"), "-c", _UNDER_PROFILER.format(str(stats)), *broker.command[1:]]
    with _running(broker):
        load.run(broker)
    out = io.StringIO()
    pstats.Stats(str(stats), stream=out).sort_stats("tottime").print_stats(_LINES)
    # Paths of this machine say nothing elsewhere: a file and its folder do.
    return re.sub(r"/\S*/(?=[^/\s]+/[^/\s]+:\d)", "", out.getvalue().partition("\n\n")[2].strip())


@contextmanager
def _running(broker: Broker) -> Iterator[None]:
    broker.start()
    try:
        broker.await_serving()
        yield
    finally:
        broker.stop()
