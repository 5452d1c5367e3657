"""What a start reads of large logs: next to nothing after a clean end, and only what lies past the recovery point after a crash.

Bytes are counted, not seconds: `python -m bench.recovery` has the times.
"""

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.node import Node
from tests.system.filled import BATCH_BYTES, bytes_read, fill

LOGS: Final = 40
LOG_BYTES: Final = 5 << 20
SEGMENT_BYTES: Final = 1 << 20
A_LOG_MAX: Final = 32 * 1024
"""Indexes, checkpoints and the last header of one log."""
PAST_BYTES: Final = 4 << 20
"""What is written after the recovery point."""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_start_after_a_clean_end_reads_next_to_nothing(node: Node) -> None:
    empty = start_reads(node)
    node.stop()
    assert fill(node, "filled", LOGS, LOG_BYTES, SEGMENT_BYTES) >= LOGS * LOG_BYTES
    clean = start_reads(node)
    node.stop()
    assert clean - empty < LOGS * A_LOG_MAX


def test_a_start_after_a_crash_reads_only_past_the_recovery_point(node: Node) -> None:
    empty = start_reads(node)
    node.stop()
    fill(node, "filled", LOGS, LOG_BYTES, SEGMENT_BYTES)
    node.start()
    produce(node)
    node.kill()
    crashed = start_reads(node)
    node.stop()
    # A log is checked from the last index entry before its recovery point, here one batch; and what is past it is looked through once
    # for headers and once for checksums.
    assert crashed - empty < LOGS * (A_LOG_MAX + BATCH_BYTES) + 2 * PAST_BYTES
    assert "recovered filled-0: " in node.log()


def start_reads(node: Node) -> int:
    """Start, and say how many bytes the process has read when it serves."""
    node.start()
    return bytes_read(node.pid)


def produce(node: Node) -> None:
    """Acknowledged records, so many that segments are full on the way."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "log_level": 2})
    for number in range(PAST_BYTES // 1024):
        producer.produce("filled", b"x" * 1024, partition=number % 2)
        producer.poll(0)
    assert producer.flush(120) == 0
