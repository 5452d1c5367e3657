"""`python -m tests.sim --seeds N [--first K] [--jobs J]`: run many lives; `--seed S --trace`: see one."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.sim.canary import ImpatientNode
from tests.sim.raft_node import RaftNode
from tests.sim.sweep import Finding, sweep, trace

CHUNK = 50
"""Seeds that one job takes at a time."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Lives of simulated clusters.")
    parser.add_argument("--seeds", type=int, default=2000, help="how many lives to run (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this one life")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens in it")
    parser.add_argument(
        "--canary", action="store_true", help="let what must wait for the disk leave at once: must be found"
    )
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return _one(given.seed, given.canary, traced=given.trace)
    return _many(given.first, given.seeds, given.jobs, given.canary)


def _one(seed: int, canary: bool, *, traced: bool) -> int:
    lines, finding = trace(seed, ImpatientNode if canary else RaftNode)
    if traced:
        print("\n".join(lines))
    return _report(finding, canary)


def _many(first: int, count: int, jobs: int, canary: bool) -> int:
    end, done, began = first + count, 0, time.monotonic()
    chunks = ((start, min(start + CHUNK, end)) for start in range(first, end, CHUNK))
    with ProcessPoolExecutor(jobs) as pool:
        for size, finding in _in_order(pool, chunks, canary, jobs):
            done += size
            if finding is not None:
                pool.shutdown(cancel_futures=True)
                print(file=sys.stderr)
                return _report(finding, canary)
            rate = done / max(time.monotonic() - began, 1e-9)
            print(f"\r{done} of {count} seeds, {rate:.0f} a second ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return _report(None, canary)


def _in_order(
    pool: ProcessPoolExecutor, chunks: Iterator[tuple[int, int]], canary: bool, jobs: int
) -> Iterator[tuple[int, Finding | None]]:
    """Results chunk by chunk, with no more chunks waiting than keeps every job busy."""
    waiting = [(end - start, pool.submit(_chunk, start, end, canary)) for start, end in islice(chunks, 2 * jobs)]
    while waiting:
        size, future = waiting.pop(0)
        yield size, future.result()
        waiting += [(end - start, pool.submit(_chunk, start, end, canary)) for start, end in islice(chunks, 1)]


def _chunk(start: int, end: int, canary: bool) -> Finding | None:
    return sweep(range(start, end), ImpatientNode if canary else RaftNode)


def _report(finding: Finding | None, canary: bool) -> int:
    if finding is None:
        print("nothing found")
        return 0
    print(f"seed {finding.seed}: {finding.what}")
    print(f"replay: python -m tests.sim --seed {finding.seed} --trace{' --canary' if canary else ''}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
