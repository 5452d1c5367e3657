"""Load from Apache Kafka's own performance tools."""

import os
import re
import subprocess
from dataclasses import dataclass
from typing import Final

from tests.kafka import fetch

# What the stock scripts give these tools, where ours for the tests prefer a quick start.
_ENVIRONMENT: Final = {"KAFKA_HEAP_OPTS": "-Xmx512M", "KAFKA_JVM_PERFORMANCE_OPTS": "-server -XX:+UseG1GC"}
_TIMEOUT_SECONDS: Final = 300
_SUMMARY: Final = re.compile(
    r"records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), .*?"
    r"([\d.]+) ms 50th, ([\d.]+) ms 95th, ([\d.]+) ms 99th, ([\d.]+) ms 99\.9th"
)
_MEBIBYTE: Final = 1.048576


@dataclass(frozen=True, slots=True)
class Produced:
    """What the producer's last summary says; with a warm-up that of the steady state."""

    mb_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


def produce(
    bootstrap: str,
    topic: str,
    records: int,
    size: int,
    warmup: int,
    rate: int = -1,
    *,
    transaction_ms: int | None = None,
    **more: str,
) -> Produced:
    """kafka-producer-perf-test with acks=all, in transactions if they have a duration.

    `more` are properties of the producer with _ for a dot.
    """
    properties = {"acks": "all", **{key.replace("_", "."): value for key, value in more.items()}}
    # The tool makes up a transactional id, another one in each run.
    transactions = [] if transaction_ms is None else ["--transaction-duration-ms", str(transaction_ms)]
    output = _run(
        *("kafka-producer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic, *transactions),
        *("--num-records", str(records), "--record-size", str(size), "--warmup-records", str(warmup)),
        *("--throughput", str(rate), "--command-property", *(f"{key}={value}" for key, value in properties.items())),
    )
    summaries = _SUMMARY.findall(output)
    if not summaries:
        raise RuntimeError(f"no summary in the output of kafka-producer-perf-test:\n{output}")
    _, mebibytes, p50, _, p99, p999 = summaries[-1]
    return Produced(float(mebibytes) * _MEBIBYTE, float(p50), float(p99), float(p999))


def consume(bootstrap: str, topic: str, records: int) -> float:
    """kafka-consumer-perf-test; MB per second without the time that joining the group took."""
    output = _run(
        *("kafka-consumer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic),
        *("--num-records", str(records), "--hide-header", "--timeout", "60000"),
    )
    rows = [line.split(", ") for line in output.splitlines() if line.count(", ") >= 9]
    if not rows or int(rows[-1][4]) < records:
        raise RuntimeError(f"kafka-consumer-perf-test did not read {records} records:\n{output}")
    return float(rows[-1][8]) * _MEBIBYTE


def _run(command: str, *arguments: str) -> str:
    finished = subprocess.run(
        [fetch() / "bin" / f"{command}.sh", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        env={**os.environ, **_ENVIRONMENT},
    )
    return finished.stdout
