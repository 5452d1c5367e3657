"""Kafka Connect with an exactly-once source: the lines of a file arrive once and in order, although the worker is killed.

Its worker keeps connectors, offsets and status in topics of the cluster, writes them in transactions, fences the producers of earlier
tasks by the Admin API, and commits the position in the file together with the records.
"""

from contextlib import closing
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.exactly_once.open_transactions import await_none_open
from tests.exactly_once.reader import Reader, read_all
from tests.node import running_node
from tests.system.connect import GROUP, Worker
from tests.system.ledger import wait_until

TOPIC: Final = "lines"
LINES: Final = 3_000
"""Before each kill, and at the end."""
HELD_BACK: Final = 200
"""Lines, at most: the connector has a buffer of 1 KiB, and looks into it only when the file has grown."""
KILLS: Final = 2
CONNECTOR: Final = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "topic": TOPIC,
    "batch.size": "20",
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
}


def test_lines_arrive_exactly_once(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", {"transaction.state.log.num.partitions": "4"}) as node:
        check_lines_arrive_exactly_once(node.bootstrap, tmp_path)


def check_lines_arrive_exactly_once(bootstrap: str, directory: Path) -> None:
    """With a cluster of either system, of one node."""
    file = directory / "lines.txt"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
    worker = Worker(directory, bootstrap)
    with closing(Reader(bootstrap, [(TOPIC, 0)])) as reader:
        try:
            append_lines(file, 0)
            worker.start()
            worker.configure("file", {**CONNECTOR, "file": str(file)})
            for kill in range(1, KILLS + 1):
                await_lines(reader, (kill - 1) * LINES + LINES // 10)
                worker.kill()
                append_lines(file, kill * LINES)
                worker.start()
            await_lines(reader, (KILLS + 1) * LINES - HELD_BACK)
            assert worker.stop() in (0, 143), worker.log()[-4000:]  # a JVM that SIGTERM ends says so
        finally:
            worker.kill()
        assert reader.errors == []
    topics = admin.list_topics(timeout=30).topics
    written = [name for name in topics if name.startswith((GROUP, TOPIC))]
    assert await_none_open(bootstrap, [(name, number) for name in written for number in topics[name].partitions]) == []
    (contents,) = read_all(bootstrap, [(TOPIC, 0)])
    assert [record.value for record in contents.records] == [
        b"line %d" % number for number in range(len(contents.records))
    ]
    assert list(contents.records[: len(reader.records)]) == reader.records


def await_lines(reader: Reader, count: int) -> None:
    wait_until(lambda: len(reader.records) >= count, f"{count} lines", lambda: len(reader.records))


def append_lines(file: Path, first: int) -> None:
    with file.open("a") as lines:
        lines.writelines(f"line {number}\n" for number in range(first, first + LINES))
