"""DescribeLogDirs and AlterReplicaLogDirs on a broker with two directories."""

from collections.abc import Sequence
from typing import Any

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import batch, store

GROUP = Group({"log.dirs": "DIRECTORY/first,DIRECTORY/second"})
_Topics = Sequence[tuple[str, Sequence[int]]]


def _describe(talk: Talk, topics: _Topics | None, version: int = 5) -> Any:
    entries = None if topics is None else [{"topic": name, "partitions": indexes} for name, indexes in topics]
    return talk.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=entries)


def _move(talk: Talk, *dirs: tuple[str, _Topics], version: int = 2) -> None:
    entries = [
        {"path": path, "topics": [{"name": name, "partitions": indexes} for name, indexes in topics]}
        for path, topics in dirs
    ]
    talk.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=entries)


def _place(talk: Talk, name: str, directory: str) -> None:
    """Move a topic where the exchange wants it, and wait until it is there."""
    path = str(talk.target.directory / directory)
    topics = [{"name": name, "partitions": [0]}]
    talk.quiet(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[{"path": path, "topics": topics}])
    wanted = [{"topic": name, "partitions": [0]}]

    def there(answer: Any) -> bool:
        found = [
            (result["log_dir"], partition["is_future_key"])
            for result in answer["results"]
            for topic in result["topics"]
            for partition in topic["partitions"]
        ]
        return found == [(path, False)]

    talk.settle(lambda: talk.quiet(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=wanted), there)


@GROUP.exchange
def empty_directories(talk: Talk) -> None:
    for version in range(1, 6):
        _describe(talk, [], version)
        _describe(talk, [("nowhere", [0])], version)


@GROUP.exchange
def a_topic(talk: Talk) -> None:
    talk.topic("placed")
    store(talk, "placed", 0, batch(3))
    _place(talk, "placed", "first")
    for version in range(1, 6):
        _describe(talk, [("placed", [0])], version)
        _describe(talk, [("placed", [0, 1, -1]), ("nowhere", [0])], version)
        _describe(talk, [("placed", []), ("", [0])], version)
        _describe(talk, [("placed", [0]), ("placed", [0])], version)


@GROUP.exchange
def moves(talk: Talk) -> None:
    first, second = (str(talk.target.directory / name) for name in ("first", "second"))
    for version in (1, 2):
        _move(talk, version=version)
        _move(talk, (first, [("placed", [0])]), version=version)
        _move(talk, ("/nowhere", [("placed", [0])]), version=version)
        _move(talk, ("", [("placed", [0])]), version=version)
        _move(talk, ("first", [("placed", [0])]), version=version)
        _move(talk, (second, [("nowhere", [0]), ("placed", [9, -1])]), version=version)
        _move(talk, (second, [("placed", [])]), version=version)
        _move(talk, (second, []), version=version)
    _place(talk, "placed", "second")
    _describe(talk, [("placed", [0])])
    _move(talk, (second + "/", [("placed", [0])]))
    _place(talk, "placed", "first")
    _describe(talk, [("placed", [0])])


@GROUP.exchange
def a_topic_that_is_to_come(talk: Talk) -> None:
    """A directory may be named before the partition exists: it is where the partition will be made."""
    _move(talk, (str(talk.target.directory / "second"), [("coming", [0])]))
    talk.topic("coming")
    _describe(talk, [("coming", [0])])
