"""Queries and waits for tests of clusters."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from isthmus_client.admin.cluster import Cluster as Described
from isthmus_client.admin.cluster import describe as describe_cluster
from isthmus_client.admin.quorum import Quorum, describe_quorum
from isthmus_client.admin.topics import NewTopic, create, list_topics
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.client import Client
from isthmus_model.endpoints import Endpoint, parse_bootstrap

from tests.node import Cluster
from tests.system.ledger import Ledger

T = TypeVar("T")
DEADLINE_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.05


class Pinned(Client):
    """A client whose bootstrap brokers alone serve the requests that any broker serves: others may be cut off, with old metadata."""

    def endpoints(self) -> list[Endpoint]:
        return list(self._bootstrap)


def query(bootstrap: str, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run `work` with a new client."""

    async def connected() -> T:
        async with Pinned(parse_bootstrap(bootstrap), client_id="test") as client:
            return await work(client)

    return asyncio.run(connected())


def wait_for(bootstrap: str, query: Callable[[Client], Awaitable[T]], done: Callable[[T], bool]) -> T:
    """Query until the condition holds, with a new client after a timeout: the node may be paused or partitioned."""

    async def queried() -> T:
        async with Pinned(parse_bootstrap(bootstrap), client_id="test") as client:
            while True:
                async with asyncio.timeout(ANSWER_SECONDS):
                    found = await query(client)
                if done(found):
                    return found
                await asyncio.sleep(_PAUSE_SECONDS)

    async def retried() -> T:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                with suppress(TimeoutError):
                    return await queried()

    return asyncio.run(retried())


def quorum(bootstrap: str) -> Quorum:
    """The quorum, from its leader."""
    return query(bootstrap, describe_quorum)


def brokers(bootstrap: str) -> Described:
    """Who is in the cluster."""
    return query(bootstrap, describe_cluster)


def await_fenced(bootstrap: str, broker: int, *, fenced: bool = True) -> None:
    """Wait until the broker is fenced, or no more."""
    wait_for(
        bootstrap, describe_cluster, lambda found: (broker in [b.node_id for b in found.brokers if b.fenced]) == fenced
    )


def make_topics(bootstrap: str, *names: str, partitions: int = 1, replicas: int = 1) -> None:
    """Create topics; each must succeed."""
    wanted = [NewTopic(name, partitions, replicas) for name in names]
    answers = query(bootstrap, lambda client: create(client, wanted))
    assert all(not isinstance(answer, Exception) for answer in answers.values()), answers


def leaders(bootstrap: str, topic: str) -> set[int | None]:
    """Who leads any partition of a topic, as one broker has it."""
    found = query(bootstrap, lambda client: describe_topics(client, [topic]))
    return {partition.leader for partition in found[topic].partitions.values()}


def await_in_sync(bootstrap: str, topic: str, replicas: set[int]) -> None:
    """Wait until these replicas of every partition are in sync."""
    wait_for(
        bootstrap,
        lambda client: describe_topics(client, [topic]),
        lambda found: all(set(each.in_sync) == replicas for each in found[topic].partitions.values()),
    )


def kill_a_leader(cluster: Cluster, topic: str, load: Ledger) -> None:
    """Kill a leader under load, and start it again."""
    (number, *_) = sorted(leader for leader in leaders(cluster.bootstrap, topic) if leader is not None and leader > 0)
    cluster.nodes[number].kill()
    load.wait_for(load.total() + 500)
    cluster.start(number)
    await_in_sync(cluster.bootstrap, topic, {1, 2, 3})


def await_topics(bootstrap: str, names: set[str]) -> None:
    """Wait until a broker knows exactly these topics."""
    wait_for(bootstrap, list_topics, lambda found: set(found) == names)


def await_caught_up(cluster: Cluster, bootstrap: str) -> Quorum:
    """Wait until every replica of the metadata has all of it."""
    replicas = len(cluster.nodes)

    def even(found: Quorum) -> bool:
        ends = [replica.log_end_offset for replica in (*found.voters, *found.observers)]
        return len(ends) == replicas and set(ends) == {found.high_watermark}

    return wait_for(bootstrap, describe_quorum, even)


def metadata_logs(cluster: Cluster) -> dict[int, bytes]:
    """The segments of every node's metadata log, one after another."""
    return {
        number: b"".join(path.read_bytes() for path in sorted(node.metadata.glob("*.log")))
        for number, node in cluster.nodes.items()
    }
