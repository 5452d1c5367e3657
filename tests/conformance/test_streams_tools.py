"""kafka-streams-groups.sh, unmodified: streams groups are listed, described and deleted, their offsets reset and deleted."""

from collections.abc import Iterator
from typing import Final

import pytest
from isthmus_wire.apis import ApiKey

from tests.conformance.clients.java import run, words
from tests.conformance.oracle.talk import Talk, Target
from tests.conformance.streams import Application
from tests.node import Node

GROUP: Final = "tools-app"
INPUT: Final = f"{GROUP}-input"
REPARTITION: Final = f"{GROUP}-words-repartition"
TASKS: Final = "0:[0,1]; 1:[0,1];"


@pytest.fixture
def talk(node: Node) -> Iterator[Talk]:
    """A conversation with the node."""
    talk = Talk(Target("127.0.0.1", node.port, node.directory))
    yield talk
    talk.close()


def test_streams_groups(node: Node, talk: Talk) -> None:
    application = Application(talk, GROUP)

    def tool(*arguments: str) -> list[str]:
        return run("kafka-streams-groups", "--bootstrap-server", node.bootstrap, *arguments)

    def describe(*arguments: str) -> list[list[str]]:
        return sorted(words(tool("--describe", "--group", GROUP, *arguments)[1:]))

    def reset(*arguments: str) -> list[list[str]]:
        lines = words(tool("--reset-offsets", "--group", GROUP, *arguments))
        return sorted(line for line in lines if line[0] == GROUP)

    assert [GROUP, "Stable"] in words(tool("--list", "--state", "Stable"))
    assert describe("--state", "--verbose") == [[GROUP, node.bootstrap, "(1)", "Stable", "2", "2", "1"]]
    member = f"{GROUP} 2 0 m streams 2 p oracle ACTIVE: {TASKS} TARGET-ACTIVE: {TASKS}".split()
    assert describe("--members", "--verbose") == [member]
    nothing = [[GROUP, REPARTITION, index, "-", "-", "0", "0"] for index in "01"]
    committed = [[GROUP, INPUT, index, "0", "-", "0", "0"] for index in "01"]
    assert describe("--verbose") == sorted([*committed, *nothing])
    assert tool("--delete", "--group", GROUP)[-1].endswith(f"Streams group '{GROUP}' is not EMPTY.")
    assert reset("--all-input-topics", "--to-latest", "--execute") == []
    application.leave()

    run(
        *("kafka-console-producer", "--bootstrap-server", node.bootstrap, "--topic", INPUT),
        stdin="".join(f"v{number}\n" for number in range(10)),
    )
    ends = [[GROUP, INPUT, str(index), str(end)] for index, end in enumerate(end_offsets(talk))]
    assert reset("--all-input-topics", "--to-latest", "--dry-run") == ends
    assert reset("--input-topic", INPUT, "--to-latest", "--execute") == ends
    assert reset("--input-topic", f"{INPUT}:1", "--to-offset", "0", "--execute") == [[GROUP, INPUT, "1", "0"]]
    deleted = tool("--delete-offsets", "--group", GROUP, "--input-topic", f"{INPUT}:0")
    assert words(deleted)[-1] == [INPUT, "0", "Successful"]
    assert tool("--delete", "--group", GROUP) == [f"Deletion of requested streams groups ('{GROUP}') was successful."]
    assert GROUP not in tool("--list")


def end_offsets(talk: Talk) -> list[int]:
    indexes = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in (0, 1)]
    (topic,) = talk.quiet(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": INPUT, "partitions": indexes}],
        timeout=0,
    )["topics"]
    return [partition["offset"] for partition in sorted(topic["partitions"], key=lambda one: one["partition_index"])]
