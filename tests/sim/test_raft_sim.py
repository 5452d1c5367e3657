"""The default sweep, the canary that it must detect, and the determinism of seeds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.__main__ import main
from tests.sim.sweep import KINDS, RAFT, Finding, Kind, sweep, trace

SEEDS = 1_000
CHUNK = 125
"""Several chunks, so that parallel workers share the sweep."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_life_breaks_an_invariant(first: int) -> None:
    assert sweep(range(first, first + CHUNK)) is None


def test_votes_sent_before_they_are_durable_are_detected() -> None:
    """The sweep that passes with the unchanged core must detect a planted defect; otherwise it would prove nothing."""
    impatient = KINDS["raft"]["impatient-node"]
    finding = sweep(range(SEEDS), impatient)
    assert finding is not None
    assert sweep([finding.seed], RAFT) is None
    lines, again = trace(finding.seed, impatient)
    assert again == finding
    assert lines


@pytest.mark.parametrize("world", sorted(KINDS))
@pytest.mark.parametrize("seed", [11, 14])
def test_a_seed_is_the_same_life_whatever_the_hash_seed(world: str, seed: int) -> None:
    traces = [_trace_in_process(world, seed, hash_seed) for hash_seed in ("0", "1")]
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) > 20


def _trace_in_process(world: str, seed: int, hash_seed: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--world", world, "--seed", str(seed), "--trace"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout


def test_the_command_says_how_to_replay_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violated(seed: int, _kind: Kind) -> tuple[list[str], Finding]:
        return [], Finding(seed, "a node forgot its vote")

    monkeypatch.setattr("tests.sim.__main__.trace", violated)
    assert main(["--seed", "7"]) == 1
    assert capsys.readouterr().out == (
        "raft, seed 7: a node forgot its vote\nreplay: python -m tests.sim --world raft --seed 7 --trace\n"
    )
