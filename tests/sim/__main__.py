"""`python -m tests.sim [--world W] --seeds N [--first K] [--jobs J]`: run many lives; `--seed S --trace`: see one."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.sim.sweep import KINDS, Finding, sweep, trace

CHUNK = 50
"""Seeds per job and chunk."""


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    logging.disable(logging.ERROR)  # truncations and failing disks are frequent here
    try:
        return _run(given)
    finally:
        logging.disable(logging.NOTSET)


def _run(given: argparse.Namespace) -> int:
    worlds = sorted(KINDS) if given.world is None else [given.world]
    if given.seed is not None:
        if len(worlds) > 1:
            worlds = ["raft"]
        return _one(worlds[0], given.seed, given.canary, traced=given.trace)
    return max(_many(world, given.first, given.seeds, given.jobs, given.canary) for world in worlds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate the lives of clusters.")
    parser.add_argument("--world", choices=sorted(KINDS), help="the kind of life (all; raft with --seed)")
    parser.add_argument("--seeds", type=int, default=2000, help="number of lives to run in each world (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this one life")
    parser.add_argument("--trace", action="store_true", help="with --seed: print its events")
    parser.add_argument(
        "--canary",
        choices=sorted(canary for kinds in KINDS.values() for canary in kinds if canary is not None),
        help="a planted defect of the given world, which the sweep must detect",
    )
    return parser


def _one(world: str, seed: int, canary: str | None, *, traced: bool) -> int:
    lines, finding = trace(seed, KINDS[world][canary])
    if traced:
        print("\n".join(lines))
    return _report(world, finding, canary)


def _many(world: str, first: int, count: int, jobs: int, canary: str | None) -> int:
    end, done, began = first + count, 0, time.monotonic()
    chunks = ((start, min(start + CHUNK, end)) for start in range(first, end, CHUNK))
    with ProcessPoolExecutor(jobs) as pool:
        for size, finding in _in_order(pool, world, chunks, canary, jobs):
            done += size
            if finding is not None:
                pool.shutdown(cancel_futures=True)
                print(file=sys.stderr)
                return _report(world, finding, canary)
            rate = done / max(time.monotonic() - began, 1e-9)
            print(f"\r{world}: {done} of {count} seeds, {rate:.0f} a second ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return _report(world, None, canary)


def _in_order(
    pool: ProcessPoolExecutor, world: str, chunks: Iterator[tuple[int, int]], canary: str | None, jobs: int
) -> Iterator[tuple[int, Finding | None]]:
    """Results chunk by chunk, with only enough chunks queued to keep every job busy."""
    waiting = [(end - start, pool.submit(_chunk, world, start, end, canary)) for start, end in islice(chunks, 2 * jobs)]
    while waiting:
        size, future = waiting.pop(0)
        yield size, future.result()
        waiting += [(end - start, pool.submit(_chunk, world, start, end, canary)) for start, end in islice(chunks, 1)]


def _chunk(world: str, start: int, end: int, canary: str | None) -> Finding | None:
    return sweep(range(start, end), KINDS[world][canary])


def _report(world: str, finding: Finding | None, canary: str | None) -> int:
    if finding is None:
        print(f"{world}: no violations")
        return 0
    print(f"{world}, seed {finding.seed}: {finding.what}")
    planted = f" --canary {canary}" if canary else ""
    print(f"replay: python -m tests.sim --world {world} --seed {finding.seed} --trace{planted}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
