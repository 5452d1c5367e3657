"""The `isthmus` command against a node, as a person or a script uses it."""

import json
import subprocess
from typing import Any

from tests.node import Node
from tests.process import ISTHMUS


def isthmus(node: Node, *arguments: str, given: str = "", status: int = 0) -> str:
    """What it prints; on standard error when the status says that it failed."""
    done = subprocess.run(
        [ISTHMUS, *arguments, "-b", node.bootstrap], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def documents(node: Node, *arguments: str) -> Any:
    return json.loads(isthmus(node, *arguments, "-o", "json"))


def test_topics(node: Node) -> None:
    assert isthmus(node, "topic", "create", "cli-a", "cli-b", "-p", "2") == "topic cli-a created\ntopic cli-b created\n"
    assert "topic_already_exists" in isthmus(node, "topic", "create", "cli-a", status=1)
    assert isthmus(node, "topic", "create", "cli-a", "--if-not-exists") == "topic cli-a exists\n"
    assert (
        isthmus(node, "topic", "alter", "cli-a", "-p", "3", "--config", "retention.ms=1000") == "topic cli-a altered\n"
    )
    (described,) = documents(node, "topic", "describe", "cli-a")
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert described["configs"]["retention.ms"] == "1000"
    assert documents(node, "topic", "describe", "--unavailable") == []
    names = [row["topic"] for row in documents(node, "topic", "list")]
    assert {"cli-a", "cli-b"} <= set(names)
    assert isthmus(node, "topic", "describe", "cli-b").splitlines()[1].split()[:3] == ["TOPIC", "PARTITION", "LEADER"]
    assert isthmus(node, "topic", "delete", "cli-a", "cli-b") == "topic cli-a deleted\ntopic cli-b deleted\n"
    assert isthmus(node, "topic", "delete", "cli-a", "--if-exists") == "topic cli-a does not exist\n"
    assert isthmus(node, "topic", "describe", "cli-a", status=1).startswith(
        "isthmus: topic cli-a: unknown_topic_or_partition: it does not exist"
    )


def test_records_in_and_out(node: Node) -> None:
    isthmus(node, "topic", "create", "cli-records", "-p", "1")
    isthmus(node, "produce", "cli-records", "-K", ":", "-H", "h=1", "-z", "zstd", given="a:1\nb:2\nc:é\n")
    isthmus(node, "produce", "cli-records", "--null", "NULL", given="NULL\n")
    everything = ("consume", "cli-records", "--from-beginning", "--until-end")
    assert isthmus(node, *everything, "--format", "%p/%o %k=%v [%h]\\n") == (
        "0/0 a=1 [h=1]\n0/1 b=2 [h=1]\n0/2 c=é [h=1]\n0/3 = []\n"
    )
    lines = isthmus(node, "consume", "cli-records", "--from-offset", "2", "-n", "2", "-o", "json").splitlines()
    assert [(one["offset"], one["value"]) for one in map(json.loads, lines)] == [(2, "é"), (3, None)]
    assert isthmus(node, "consume", "cli-records", "--from-time", "2100-01-01", "-e") == ""
    wrong = isthmus(node, "produce", "cli-records", "-K", ":", given="nokey\n", status=1)
    assert wrong == "isthmus: a line without the key separator ':': b'nokey'\n"
    assert "topic cli-nothing: unknown_topic_or_partition" in isthmus(
        node, "produce", "cli-nothing", given="x\n", status=1
    )
    assert "has no partition 5; it has 1" in isthmus(node, *everything, "--partition", "5", status=1)


def test_groups(node: Node) -> None:
    isthmus(node, "topic", "create", "cli-groups", "-p", "1")
    isthmus(node, "produce", "cli-groups", given="".join(f"{index}\n" for index in range(10)))
    read = isthmus(node, "consume", "cli-groups", "-g", "cli-g", "--from-beginning", "-n", "4")
    assert read == "0\n1\n2\n3\n"
    (described,) = documents(node, "group", "describe", "cli-g")
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 6, [])
    assert described["offsets"][0] == {
        "topic": "cli-groups", "partition": 0, "committed": 4, "end": 10, "lag": 6, "member": None,
    }  # fmt: skip
    assert "cli-g" in [row["group"] for row in documents(node, "group", "list", "--state", "Empty")]
    reset = ("group", "reset-offsets", "cli-g", "--topic", "cli-groups")
    (row,) = documents(node, *reset, "--shift-by", "-3")
    assert (row["old_offset"], row["new_offset"]) == (4, 1)
    (row,) = documents(node, *reset, "--to-offset", "99", "--execute")  # the dry run before changed nothing
    assert (row["old_offset"], row["new_offset"]) == (4, 10)
    assert isthmus(node, *reset, "--to-earliest", "--export") == "cli-groups,0,0\n"
    isthmus(node, *reset, "--to-datetime", "2000-01-01", "--execute")
    assert documents(node, "group", "describe", "cli-g")[0]["lag"] == 10
    deleted = isthmus(node, "group", "delete-offsets", "cli-g", "--topic", "cli-groups")
    assert deleted == "offset of group cli-g for partition cli-groups-0 deleted\n"
    missing = isthmus(node, "group", "describe", "cli-nobody", status=1)
    assert missing == "isthmus: group cli-nobody: group_id_not_found: Group cli-nobody not found.\n"


def test_configs(node: Node) -> None:
    isthmus(node, "topic", "create", "cli-configs")
    target = ("topic", "cli-configs")
    assert isthmus(node, "config", "set", *target, "retention.ms=5") == "topic cli-configs: 1 changed\n"
    found = {row["name"]: row for row in documents(node, "config", "describe", *target)}
    assert (found["retention.ms"]["value"], found["retention.ms"]["source"]) == ("5", "topic")
    isthmus(node, "config", "delete", *target, "retention.ms")
    assert "retention.ms" not in {row["name"] for row in documents(node, "config", "describe", *target)}
    everything = {row["name"]: row for row in documents(node, "config", "describe", *target, "--all")}
    assert everything["retention.ms"]["source"] == "default"
    assert "Unknown topic config name: foo" in isthmus(node, "config", "set", *target, "foo=1", status=1)


def test_the_cluster(node: Node) -> None:
    described = documents(node, "cluster", "describe")
    assert [(broker["port"], broker["state"]) for broker in described["brokers"]] == [(node.port, "active")]
    assert "group.version" in [row["feature"] for row in documents(node, "cluster", "features")]
    (directory,) = documents(node, "cluster", "log-dirs")
    assert directory["state"] == "ok"
    isthmus(node, "topic", "create", "cli-sizes", "-p", "2")
    sizes = documents(node, "cluster", "log-dirs", "--topic", "cli-sizes")
    assert [(row["partition"], row["bytes"]) for row in sizes] == [(0, 0), (1, 0)]


def test_a_closed_pipe_ends_the_command_quietly(node: Node) -> None:
    isthmus(node, "topic", "create", "cli-pipe", "-p", "1")
    isthmus(node, "produce", "cli-pipe", given="line\n" * 50_000)
    consume = subprocess.Popen(
        [ISTHMUS, "consume", "cli-pipe", "--from-beginning", "-b", node.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert consume.stdout is not None
    assert consume.stderr is not None
    assert consume.stdout.readline() == b"line\n"
    consume.stdout.close()
    isthmus(node, "produce", "cli-pipe", given="line\n" * 50_000)
    assert consume.wait(60) == 0
    assert consume.stderr.read() == b""
    consume.stderr.close()
