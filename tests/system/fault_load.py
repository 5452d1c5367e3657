"""The load of a stretched cluster whose parts fail: producers, a reader, a group's commits; and the comparison of its replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from isthmus_client.admin.partitions import elect, reassign
from isthmus_client.admin.replicas import PartitionStatus, replica_status
from isthmus_client.admin.topics import NewTopic
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.metadata import Topic
from isthmus_client.metadata import TopicPartition as Place
from isthmus_wire.records import batches

from tests.histories import UNKNOWN, CommitConfirmed, CommitRead, CommitRequested, Event, violations
from tests.system.ledger import CLIENT_SETTINGS, PARTITIONS, PAUSE_SECONDS, WAIT_SECONDS, Ledger, wait_until
from tests.system.quorums import query, wait_for
from tests.system.stretched import Follower, Stretched

PRODUCERS: Final = 2
RECORDS_A_ROUND: Final = 200
COMPACTED: Final = "compacted"
_KEYS: Final = 20
_ROLLING: Final = {"internal.segment.bytes": "100000"}
_CLEANED: Final = {
    "internal.segment.bytes": "50000",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
}


class Committer:
    """Commits rising offsets for a group without members, and reads them back; records the history.

    After a failure it opens a new consumer. The old one would query the only broker that it is connected to for the coordinator; that
    broker may be cut off, and name itself.
    """

    def __init__(self, bootstrap: str, partition: tuple[str, int]) -> None:
        self.history: list[Event] = []
        self.confirmed = 0
        self._place = partition
        self._settings: dict[str, Any] = {
            **CLIENT_SETTINGS,
            "bootstrap.servers": bootstrap,
            "group.id": "committer",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(self._settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        offset = 0
        while not self._stop.wait(0.02):
            offset += 1
            self.history.append(CommitRequested("committer", self._place, offset))
            try:
                (result,) = self._consumer.commit(offsets=[TopicPartition(*self._place, offset)], asynchronous=False)
            except KafkaException:
                self._reopen()
                continue
            if result.error is None:
                self.history.append(CommitConfirmed("committer", self._place, offset))
                self.confirmed += 1
            if offset % 10 == 0:
                self._read()

    def _read(self) -> bool:
        try:
            (found,) = self._consumer.committed([TopicPartition(*self._place)], timeout=5)
        except KafkaException:
            self._reopen()
            return False
        if found.error is not None:
            return False
        self.history.append(CommitRead("committer", self._place, max(found.offset, UNKNOWN)))
        return True

    def _reopen(self) -> None:
        self._consumer.close()
        self._consumer = Consumer(self._settings)

    def wait_for(self, count: int) -> None:
        """Until that many commits are confirmed."""
        wait_until(lambda: self.confirmed >= count, f"{count} confirmed commits")

    def stop(self) -> None:
        """Commit nothing more. A commit whose coordinator never comes back does not return."""
        self._stop.set()
        self._thread.join(WAIT_SECONDS)

    def check(self) -> None:
        """The group's offset is one that the history explains."""
        self.stop()
        assert not self._thread.is_alive(), f"a commit has not returned within {WAIT_SECONDS} s"
        wait_until(self._read, "the committed offset")
        assert violations(self.history) == []

    def close(self) -> None:
        self.stop()
        if not self._thread.is_alive():
            self._consumer.close()


class Load:
    """Producers with a topic each, one of them compacted, a reader that follows them, and a group."""

    def __init__(self, cluster: Stretched, home: str, pause_seconds: float) -> None:
        self.cluster = cluster
        self.home = home
        self.plain = [f"ledger-{number}" for number in range(PRODUCERS)]
        self.topics = [*self.plain, COMPACTED]
        self.brokers = sorted(node.node_id for node in cluster.site.plan.nodes if node.is_broker)
        self.regions = sorted({node.region for node in cluster.site.plan.nodes if node.is_broker})
        count = len(self.brokers)
        rolling = [NewTopic(topic, PARTITIONS, count, configs=_ROLLING) for topic in self.plain]
        cluster.make(home, *rolling, NewTopic(COMPACTED, PARTITIONS, count, configs=_CLEANED))
        bootstrap = cluster.bootstrap_all(home)
        self.ledgers = [Ledger(bootstrap, topic, pause_seconds=pause_seconds) for topic in self.plain]
        self.ledgers.append(Ledger(bootstrap, COMPACTED, keys=_KEYS, pause_seconds=pause_seconds))
        self.follower = Follower(bootstrap, self.plain, PARTITIONS)
        self.committer = Committer(bootstrap, (self.plain[0], 0))

    def go_on(self) -> None:
        """Until every producer has had so many more records acknowledged, and a commit is confirmed."""
        for ledger in self.ledgers:
            ledger.wait_for(ledger.total() + RECORDS_A_ROUND)
        self.committer.wait_for(self.committer.confirmed + 1)

    def records(self) -> int:
        """Records acknowledged so far."""
        return sum(ledger.total() for ledger in self.ledgers)

    def resent(self) -> int:
        """Copies of records that clients sent again under another producer epoch, as the check has found."""
        return sum(ledger.resent for ledger in self.ledgers)

    # -- replicas ------------------------------------------------------------------------------------------------------------

    def await_shrunk(self, region: str) -> None:
        """Until some replica is out of sync."""
        wait_for(
            self.cluster.bootstrap(region),
            lambda client: describe_topics(client, self.topics),
            lambda found: any(
                len(p.in_sync) < len(self.brokers) for topic in found.values() for p in topic.partitions.values()
            ),
        )

    def await_whole(self) -> None:
        """Until every replica is in sync, as every region has it."""

        def done(found: dict[str, Topic]) -> bool:
            return all(
                set(p.in_sync) == set(self.brokers) for topic in found.values() for p in topic.partitions.values()
            )

        for region in self.regions:
            wait_for(self.cluster.bootstrap(region), lambda client: describe_topics(client, self.topics), done)

    def leader(self) -> str:
        """The node that leads the first partition."""
        found = wait_for(
            self.cluster.bootstrap(self.home),
            lambda client: describe_topics(client, self.topics[:1]),
            lambda found: found[self.topics[0]].partitions[0].leader >= 0,
        )
        return self.cluster.names[found[self.topics[0]].partitions[0].leader]

    def compare_replicas(self) -> None:
        """Every replica has the same bytes up to the high watermark. Compacted logs are cleaned at different times."""
        wait_until(self._compared, "replicas that all remain in sync while they are read")

    def _compared(self) -> bool:
        """Whether the comparison counts: a follower may truncate its log once another broker has become the leader."""
        before = self._whole()
        logs = {place: [self._log(broker, place) for broker in self.brokers] for place in before}
        after = self._whole()
        if not before or _epochs(before) != _epochs(after):
            return False
        for place, status in before.items():
            end = min(replica.log_end for replica in status.replicas)
            committed = {_below(log, end) for log in logs[place]}
            assert len(committed) == 1, f"replicas of {place} differ below {end}"
        return True

    def _whole(self) -> dict[Place, PartitionStatus]:
        """The status of each partition; empty unless every replica of every partition is in sync, and its log end known to the leader."""
        places = [Place(topic, partition) for topic in self.plain for partition in range(PARTITIONS)]
        found = query(self.cluster.bootstrap(self.home), lambda client: replica_status(client, places))
        whole = {
            place: status
            for place, status in found.items()
            if isinstance(status, PartitionStatus)
            and all(replica.is_in_isr and replica.log_end >= 0 for replica in status.replicas)
        }
        return whole if len(whole) == len(places) else {}

    def _log(self, broker: int, place: Place) -> bytes:
        (node,) = [node for node in self.cluster.site.plan.nodes if node.node_id == broker]
        folder = Path(node.settings["log.dirs"]) / str(place)
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))

    def give_leadership_to(self, node: str) -> None:
        """Make a broker, which has come back, the leader of everything."""
        chosen = self.cluster.ids[node]
        replicas = [chosen, *(broker for broker in self.brokers if broker != chosen)]
        places = [Place(topic, index) for topic in self.topics for index in range(PARTITIONS)]
        bootstrap = self.cluster.bootstrap(self.home)
        outcomes = query(bootstrap, lambda client: reassign(client, dict.fromkeys(places, replicas)))
        assert not any(outcomes.values()), outcomes
        query(bootstrap, lambda client: elect(client, None))
        wait_for(
            bootstrap,
            lambda client: describe_topics(client, self.topics),
            lambda found: all(p.leader == chosen for topic in found.values() for p in topic.partitions.values()),
        )

    # -- the end -------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Stop, and compare what is there with what the clients recorded."""
        self.await_whole()
        for ledger in self.ledgers:
            ledger.finish()
            ledger.check()
        self.follower.check([ledger for ledger in self.ledgers if ledger.topic in self.plain])
        self.committer.check()
        self.compare_replicas()

    def close(self) -> None:
        for ledger in self.ledgers:
            ledger.stop()
        self.committer.close()
        self.follower.close()


def _epochs(statuses: Mapping[Place, PartitionStatus]) -> dict[Place, int]:
    return {place: status.leader_epoch for place, status in statuses.items()}


def _below(log: bytes, end: int) -> bytes:
    """The batches below an offset."""
    size = 0
    for position, header in batches(log):
        if header.base_offset >= end:
            break
        size = position + header.size
    return log[:size]


@contextmanager
def load(cluster: Stretched, home: str, pause_seconds: float = PAUSE_SECONDS) -> Iterator[Load]:
    """The load during the block, and the check after it. The clients are at `home`; producers pause after each record."""
    started = Load(cluster, home, pause_seconds)
    try:
        started.go_on()
        yield started
        started.go_on()
        started.check()
    finally:
        started.close()
