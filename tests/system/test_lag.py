"""Reports and history of lag, by the commands, over a topic that a node holds."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from isthmus_client.admin import topics
from isthmus_client.client import Client, parse_bootstrap
from isthmus_client.producer import Producer
from isthmus_lag.samples import SCHEMA
from isthmus_lag.session import spark_session
from isthmus_service.lag import LAG_TOPIC, CopyKind, LagSample

from tests.node import ISTHMUS, running_node

SUBMIT = Path(sys.executable).with_name("spark-submit")
PROGRAM = Path(__file__).parents[2] / "lib" / "isthmus_cli" / "__main__.py"
SECONDS = 240
START_MS = 1_760_000_000_000
SMALL = ["--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=1"]
SUBMIT_SMALL = ["--master", "local[1]", *SMALL]


def sample(at_ms: int, partition: int, lag_ms: int) -> LagSample:
    return LagSample(
        kind=CopyKind.LINK,
        link="atlantic",
        source_cluster="far",
        target_cluster="near",
        source_region="us",
        target_region="eu",
        source_topic="orders",
        topic="orders",
        partition=partition,
        target_broker=-1,
        source_end=10_000,
        target_end=10_000 - lag_ms,
        lag_ms=lag_ms,
        at_ms=at_ms,
    )


def write(bootstrap: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    async def written() -> None:
        async with Client(parse_bootstrap(bootstrap)) as client:
            await topics.create(client, [topics.NewTopic(LAG_TOPIC, partitions=2)])
            producer = Producer(client)
            for index, (key, value) in enumerate(records):
                await producer.send(LAG_TOPIC, value, key=key, partition=index % 2)
            await producer.flush()

    asyncio.run(written())


def samples(moments: range) -> list[LagSample]:
    """Two partitions a second, with lags of 10 ms for each second of a moment, and of a tenth of that."""
    return [
        sample(START_MS + second * 1000, partition, second * (10 if partition == 0 else 1))
        for second in moments
        for partition in (0, 1)
    ]


def records(told: Sequence[LagSample]) -> list[tuple[bytes, bytes]]:
    return [(one.key(), one.value()) for one in told]


def isthmus(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ISTHMUS, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_report_by_spark_submit_tells_the_truth(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, [*records(samples(range(100))), (b"x", b"no sample")])
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        files: list[str | Path] = ["--html", tmp_path / "report.html", "--json", tmp_path / "report.json"]
        rules = ["--objective", "rpo.ms=500", "--objective", "link=atlantic:rpo.records=990"]
        ended = subprocess.run(
            [SUBMIT, *SUBMIT_SMALL, PROGRAM, "lag", "report", "-b", node.bootstrap, *rules, *files, "-o", "json"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=environment,
        )
    assert ended.returncode == 0, ended.stderr[-3000:]
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert json.loads(ended.stdout) == report
    assert report["samples"]["records"] == 201
    assert report["samples"]["corrupt_reasons"] == [{"reason": "the value is not JSON", "count": 1}]
    assert report["window"]["step_ms"] == 1000
    (rpo,) = report["rpo"]["link"]["rows"]
    # The hundred moments lack 0, 11, 22, ... records, and go back 0, 10, 20, ... ms.
    assert {name: rpo[f"rpo_records_{name}"] for name in ("p50", "p95", "max")} == {
        "p50": 539,
        "p95": 1034,
        "max": 1089,
    }
    assert {name: rpo[f"rpo_ms_{name}"] for name in ("p50", "p99", "max")} == {"p50": 490, "p99": 980, "max": 990}
    late, lost = report["objectives"]
    assert [(row["met"], row["missed"], row["met_share"]) for row in late["shares"]["rows"]] == [(51, 49, 0.51)]
    assert [(row["from_ms"], row["to_ms"]) for row in late["misses"]["rows"]] == [
        (START_MS + 51_000, START_MS + 100_000)
    ]
    assert [row["missed"] for row in lost["shares"]["rows"]] == [9]
    assert report["gaps"]["rows"] == []
    assert [row["partition"] for row in report["worst_copies"]["rows"]] == [0, 1]
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "src=" not in page
    assert "1\N{NARROW NO-BREAK SPACE}089" in page


def test_a_killed_stream_goes_on_without_loss_or_doubles(tmp_path: Path) -> None:
    history = tmp_path / "history"
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, [*records(samples(range(100))), (b"x", b"no sample")])
        command = ["lag", "stream", "-b", node.bootstrap, "--to", str(history), *SMALL]
        with subprocess.Popen(
            [ISTHMUS, *command, "--every", "100 milliseconds", "--max-offsets", "20"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as stream:
            try:
                await_file(history / "_spark_metadata" / "1", stream)
            finally:
                os.killpg(stream.pid, signal.SIGKILL)
        write(node.bootstrap, records(samples(range(100, 110))))
        ended = isthmus(*command, "--once")
        assert ended.returncode == 0, ended.stderr[-3000:]
        with spark_session("read", "local[1]", {"spark.driver.memory": "512m"}) as spark:
            told = spark.read.format("isthmus_lag").option("bootstrap", node.bootstrap).load()
            kept = spark.read.parquet(str(history))
            found = Counter(map(tuple, kept.where("topic is not null").select(*SCHEMA.names).collect()))
            assert found == Counter(map(tuple, told.where("topic is not null").select(*SCHEMA.names).collect()))
            assert found.total() == 220
            broken = [tuple(row) for row in kept.where("topic is null").select("kind", "_corrupt").collect()]
            assert broken == [("unknown", "the value is not JSON")]
            days = {
                (str(row["day"]), row["kind"])
                for row in kept.where("topic is not null").select("day", "kind").collect()
            }
            assert days == {("2025-10-09", "link")}


def await_file(path: Path, writer: "subprocess.Popen[bytes]") -> None:
    """Until a process has made a file."""
    pause = threading.Event()
    for _ in range(SECONDS * 20):
        if path.exists():
            return
        assert writer.poll() is None, "the stream ended by itself"
        pause.wait(0.05)
    raise TimeoutError(f"{path} was not made")


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        for arguments, message in (
            (("-b", node.bootstrap), f"there is no topic {LAG_TOPIC}"),
            (("-b", node.bootstrap, "--objective", "lag=1"), "wants rpo.ms=5000"),
            (("-b", node.bootstrap, "--from", "noon"), "wants an ISO 8601 time"),
        ):
            ended = isthmus("lag", "report", *arguments)
            assert ended.returncode != 0
            assert message in " ".join(ended.stderr.replace("│", "").split())
            assert "Traceback" not in ended.stderr
