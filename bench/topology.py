"""`python -m bench.topology`: the built-in topology of nine nodes in three regions: time to be up, memory, and what near reads save."""

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer

from bench import report
from bench.__main__ import scratch
from bench.brokers import install

_ROUNDS: Final = 3
_RECORDS: Final = 20_000
_RECORD: Final = 1_000
_TOPIC: Final = "orders"
_FROM: Final = "eu-west"
_TO: Final = "us-east"
_GIVE_UP_SECONDS: Final = 120.0


def main() -> None:
    """Measure, and write JSON and a table."""
    with scratch() as directory:
        rounds = [_measure(directory / str(number)) for number in range(_ROUNDS)]
    facts = report.conditions(_ROUNDS)
    report.RESULTS.mkdir(exist_ok=True)
    (report.RESULTS / "topology.json").write_text(json.dumps({"conditions": facts, "rounds": rounds}, indent=1) + "\n")
    rows = "".join(
        f"| {name} | {statistics.median(one[name] for one in rounds):,.1f} | {max(one[name] for one in rounds):,.1f} |\n"
        for name in rounds[0]
    )
    conditions = "".join(f"- {name}: {value}\n" for name, value in facts.items())
    table = f"# Nine nodes in three regions\n\n{conditions}\n| figure | median | worst |\n|---|--:|--:|\n{rows}"
    (report.RESULTS / "topology.md").write_text(table)
    print(table)


def _measure(directory: Path) -> dict[str, float]:
    site = ("--dir", str(directory))
    started = time.perf_counter()
    _isthmus("up", "stretched", *site)
    figures = {"`isthmus up` until every partition is led, s": time.perf_counter() - started}
    try:
        time.sleep(5.0)
        figures["resident memory of all nodes, idle, MB"] = _memory(site)
        bootstrap = {row["region"]: row["bootstrap"] for row in _status(site)["regions"]}
        _produce(bootstrap[_FROM])
        _await_observers(site)
        for name, rack in (("without client.rack", ""), ("with client.rack", f"{_TO}/a")):
            before = _crossed(site)
            _consume(bootstrap[_TO], rack, name)
            figures[f"bytes into {_TO} for {_RECORDS * _RECORD / 1e6:.0f} MB read there {name}, MB"] = (
                _crossed(site) - before
            ) / 1e6
        figures["resident memory of all nodes, after load, MB"] = _memory(site)
    finally:
        _isthmus("down", "--purge", *site)
    return figures


def _isthmus(*arguments: str) -> str:
    command = [str(install() / "isthmus"), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _status(site: tuple[str, str]) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(_isthmus("status", "-o", "json", *site))
    return status


def _memory(site: tuple[str, str]) -> float:
    return float(sum(node["mb"] for node in _status(site)["nodes"]))


def _crossed(site: tuple[str, str]) -> int:
    return sum(int(link["carried"]) for link in _status(site)["links"] if link["to"] == _TO)


def _await_observers(site: tuple[str, str]) -> None:
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while any(region["lag"] for region in _status(site)["regions"]):
        if time.monotonic() > deadline:
            raise RuntimeError("the observers do not catch up")


def _produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for _ in range(_RECORDS):
        producer.produce(_TOPIC, bytes(_RECORD))
        producer.poll(0)
    if producer.flush(_GIVE_UP_SECONDS):
        raise RuntimeError("not everything was acknowledged")


def _consume(bootstrap: str, rack: str, group: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | ({"client.rack": rack} if rack else {}))
    consumer.subscribe([_TOPIC])
    deadline, left = time.monotonic() + _GIVE_UP_SECONDS, _RECORDS
    while left:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            left -= 1
        elif time.monotonic() > deadline:
            raise RuntimeError(f"{left} records were not read")
    consumer.close()


if __name__ == "__main__":
    main()
