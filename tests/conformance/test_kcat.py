"""kcat, unmodified, against a node."""

import json
import subprocess
from typing import Any

import pytest

from tests.conformance.clients.waiting import DEADLINE_SECONDS
from tests.node import Node


def kcat(node: Node, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", node.bootstrap, "-q", *arguments]
    finished = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def messages(node: Node, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kcat(node, "-C", "-J", "-e", *arguments).splitlines()]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(node: Node, compression: str) -> None:
    topic = f"kcat-{compression}"
    lines = "".join(f"k{number}:v{number}{'x' * 100}\n" for number in range(100))
    settings = ("-X", "enable.idempotence=true", "-z", compression, "-H", "a=1", "-K", ":")
    kcat(node, "-P", "-t", topic, "-p", "0", *settings, stdin=lines)
    found = messages(node, "-t", topic, "-o", "beginning")
    assert [(m["offset"], m["key"], m["payload"], m["headers"]) for m in found] == [
        (number, f"k{number}", f"v{number}{'x' * 100}", ["a", "1"]) for number in range(100)
    ]


def test_offsets_and_metadata(node: Node) -> None:
    kcat(node, "-P", "-t", "kcat-offsets", "-p", "0", stdin="a\nb\nc\n")
    assert [m["payload"] for m in messages(node, "-t", "kcat-offsets", "-p", "0", "-o", "-2")] == ["b", "c"]
    assert [m["payload"] for m in messages(node, "-t", "kcat-offsets", "-p", "0", "-o", "s@0")] == ["a", "b", "c"]
    assert kcat(node, "-Q", "-t", "kcat-offsets:0:0") == "kcat-offsets [0] offset 0\n"
    metadata = json.loads(kcat(node, "-L", "-J", "-t", "kcat-offsets"))
    assert metadata["brokers"] == [{"id": 1, "name": node.bootstrap}]
    (topic,) = metadata["topics"]
    assert [(one["partition"], one["leader"]) for one in topic["partitions"]] == [(0, 1)]


def test_a_balanced_group(node: Node) -> None:
    kcat(node, "-P", "-t", "kcat-group", "-p", "0", stdin="a\nb\nc\n")
    group = ("-X", "auto.offset.reset=earliest", "-G", "kcat-group")
    assert kcat(node, "-c", "2", *group, "kcat-group") == "a\nb\n"
    assert kcat(node, "-c", "1", *group, "kcat-group") == "c\n"
