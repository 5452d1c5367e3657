"""Reports and history of lag, by the commands, over a topic that a node holds."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from isthmus_lag.history import read_history
from isthmus_lag.jobs.objectives import parse_objective
from isthmus_lag.report import ReportOptions, make_report, read_samples
from isthmus_lag.samples import SCHEMA
from isthmus_lag.session import spark_session
from isthmus_lag.stream import StreamOptions, await_end, start_stream
from isthmus_model.internal_topics import LAG_TOPIC

from tests.kafka import SHORT_LIVED_JVM
from tests.node import running_node
from tests.process import ISTHMUS
from tests.system.lag_samples import START_MS, records, sample, samples, write

SUBMIT = Path(sys.executable).with_name("spark-submit")
PROGRAM = Path(__file__).parents[2] / "lib" / "isthmus_cli" / "__main__.py"
SECONDS = 240
DAY_MS = 24 * 3600 * 1000
SMALL = ["--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=1"]
FAST_START = ["--conf", f"spark.driver.extraJavaOptions={' '.join(SHORT_LIVED_JVM)}"]
"""As a session of `isthmus lag` has it: a report is too short for the optimizing compiler."""
SUBMIT_SMALL = ["--master", "local[1]", *SMALL, *FAST_START]


def isthmus(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ISTHMUS, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_report_by_spark_submit_is_correct(tmp_path: Path) -> None:
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
    # The hundred samples have lags of 0, 11, 22, ... records, and 0, 10, 20, ... ms.
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
    told_again = isthmus("lag", "report", "--history", str(history), *SMALL, "-o", "json")
    assert told_again.returncode == 0, told_again.stderr[-3000:]
    counted = json.loads(told_again.stdout)["samples"]
    assert (counted["records"], counted["samples"], counted["corrupt"]) == (221, 220, 1)


def await_file(path: Path, writer: "subprocess.Popen[bytes]") -> None:
    """Until a process has made a file."""
    pause = threading.Event()
    for _ in range(SECONDS * 20):
        if path.exists():
            return
        assert writer.poll() is None, "the stream ended early"
        pause.wait(0.05)
    raise TimeoutError(f"{path} was not made")


def test_a_report_of_the_history_has_the_numbers_of_the_topic(tmp_path: Path) -> None:
    midnight = int(time.time() * 1000) // DAY_MS * DAY_MS
    moments = [midnight + second * 1000 for second in range(-30, 30)]
    told = [sample(at, partition, (at // 1000) % 7 * 50) for at in moments for partition in (0, 1)]
    no_kind = json.dumps({"version": 2, "link": "atlantic"}).encode()
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, records(told), [one.at_ms + 10 for one in told])
        write(node.bootstrap, [(b"x", b"no sample"), (b"y", no_kind)], [moments[-1] + 20] * 2)
        with spark_session("history", "local[2]", {"spark.driver.memory": "512m"}) as spark:
            directory = str(tmp_path / "history")
            job = StreamOptions(bootstrap=node.bootstrap, topic=LAG_TOPIC, directory=directory, every=None)
            await_end(start_stream(spark, job), lambda: False)
            for window, count in (((None, None), 120), ((midnight - 10_000, midnight + 5000), 30)):
                options = ReportOptions(from_ms=window[0], to_ms=window[1], objectives=[parse_objective("rpo.ms=100")])
                report = make_report(read_history(spark, directory, *window), options)
                assert report == make_report(read_samples(spark, node.bootstrap, LAG_TOPIC, *window), options)
                assert report["samples"]["samples"] == count
                assert (report["samples"]["corrupt"], report["samples"]["later_versions"]) == (1, 1)


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        for arguments, message in (
            (("-b", node.bootstrap), f"topic {LAG_TOPIC} does not exist"),
            (("-b", node.bootstrap, "--objective", "lag=1"), "expected rpo.ms=5000"),
            (("-b", node.bootstrap, "--from", "noon"), "expected an ISO 8601 time"),
            (("--topic", "t", "--history", "here"), "a topic or a history, not both"),
        ):
            ended = isthmus("lag", "report", *arguments)
            assert ended.returncode != 0
            assert message in " ".join(ended.stderr.replace("│", "").split())
            assert "Traceback" not in ended.stderr
