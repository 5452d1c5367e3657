"""One cluster stretched over regions, with the distance between them emulated, for tests that break it and make it whole again."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from isthmus_client.admin.cluster import Cluster as Described
from isthmus_client.admin.cluster import describe as describe_cluster
from isthmus_client.admin.configs import Change, Operation, Resource, alter
from isthmus_client.admin.quorum import Quorum, describe_quorum
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus, replica_status
from isthmus_client.admin.topics import NewTopic, create, delete, list_topics
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.metadata import Topic
from isthmus_client.metadata import TopicPartition as Place
from isthmus_model.config_resources import ResourceType
from isthmus_topology.bring_up import bring_up
from isthmus_topology.description import read_topology
from isthmus_topology.plan import HOST, Plan
from isthmus_topology.planner import make_plan
from isthmus_topology.processes import Site, new_site
from isthmus_topology.wan.control import send_request as ask_wan

from tests.histories import Event, Polled, Positioned, violations
from tests.ports import free_ports
from tests.system.ledger import CLIENT_SETTINGS, Ledger, wait_until
from tests.system.quorums import query, quorum, wait_for


class Led(NamedTuple):
    """A partition in Metadata; in an expectation, None matches any ISR."""

    leader: int
    in_sync: frozenset[int] | None

    def admits(self, found: "Led") -> bool:
        return self.leader == found.leader and self.in_sync in (None, found.in_sync)


NO_NODE: Final = -1
NOBODY: Final = Led(NO_NODE, None)


class Stretched:
    """The first cluster of a topology that runs; nodes are named as in its plan, such as west-1."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._name = site.topology.clusters[0].name
        nodes = [node for node in site.plan.nodes if node.cluster == self._name]
        self.ids = {node.name: node.node_id for node in nodes}
        self.names = {node.node_id: node.name for node in nodes}

    def bootstrap(self, region: str) -> str:
        """Where a client of a region begins."""
        return self.site.plan.bootstrap(self._name, region)

    def bootstrap_all(self, region: str) -> str:
        """Every broker, at its address for clients of a region: one that starts while others are dead finds the cluster."""
        return ",".join(f"{HOST}:{node.advertised[region]}" for node in self.site.plan.nodes if node.is_broker)

    def log(self, node: str) -> str:
        """What a node said on standard error."""
        return (self.site.directory / node / "log").read_text()

    # -- faults --------------------------------------------------------------------------------------------------------------

    def signal(self, number: signal.Signals, *nodes: str) -> None:
        for node in nodes:
            self.site.processes[node].signal(number)

    def kill(self, *nodes: str) -> None:
        """SIGKILL at the same instant: none of them does anything about the death of another."""
        self.signal(signal.SIGSTOP, *nodes)
        self.signal(signal.SIGKILL, *nodes)
        self.await_dead(*nodes)

    def await_dead(self, *nodes: str) -> None:
        wait_until(lambda: all(self.site.state_of(node) == "dead" for node in nodes), f"{nodes} to be dead")

    def start(self) -> None:
        """Everything that does not run."""
        bring_up(self.site, lambda _: None)

    def cut(self, near: str, far: str, *, one_way: bool = False, reset: bool = False) -> None:
        self._wan({"op": "cut", "from": near, "to": far, "one_way": one_way, "reset": reset})

    def heal(self) -> None:
        self._wan({"op": "heal"})

    def carried(self, near: str, far: str) -> int:
        """Bytes that went from one region to another so far."""
        directions = self._wan({"op": "state"})
        return next(int(d["carried"]) for d in directions if (d["from"], d["to"]) == (near, far))

    def _wan(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        return ask_wan(self.site.control, request)

    def restore(self, region: str) -> None:
        """Heal, resume and start what must be, wait until all brokers serve, and forget the topics."""
        self.heal()
        self.signal(signal.SIGCONT, *self.site.processes)
        self.start()
        self.await_brokers(region, fenced=())
        names = [name for name, topic in query(self.bootstrap(region), list_topics).items() if not topic.is_internal]
        query(self.bootstrap(region), lambda client: delete(client, names))

    def configure(self, region: str, topic: str, settings: Mapping[str, str | None]) -> None:
        """Set a topic's settings; None takes one back."""
        self._alter(region, Resource(ResourceType.TOPIC, topic), settings)

    def configure_broker(self, region: str, broker: int, settings: Mapping[str, str | None]) -> None:
        self._alter(region, Resource(ResourceType.BROKER, str(broker)), settings)

    def _alter(self, region: str, resource: Resource, settings: Mapping[str, str | None]) -> None:
        changes = [
            Change(name, Operation.DELETE if value is None else Operation.SET, value)
            for name, value in settings.items()
        ]
        answers = query(self.bootstrap(region), lambda client: alter(client, {resource: changes}))
        assert answers == {resource: None}, answers

    # -- what is there -------------------------------------------------------------------------------------------------------

    def make(self, region: str, *topics: NewTopic) -> None:
        answers = query(self.bootstrap(region), lambda client: create(client, topics))
        assert all(answer is None for answer in answers.values()), answers

    def await_brokers(self, region: str, fenced: Collection[int]) -> None:
        """Wait until exactly these are fenced, according to a broker of the region."""

        def done(found: Described) -> bool:
            return {broker.node_id for broker in found.brokers if broker.fenced} == set(fenced)

        wait_for(self.bootstrap(region), describe_cluster, done)

    def await_led(self, region: str, expected: Mapping[str, Led | Collection[Led]]) -> dict[str, Led]:
        """Until partition 0 of each topic is as expected, or one of what may be expected."""
        allowed = {name: [state] if isinstance(state, Led) else list(state) for name, state in expected.items()}
        last: dict[str, Led] = {}

        def done(found: dict[str, Topic]) -> bool:
            last.update({name: _led(topic) for name, topic in found.items()})
            return not wrong()

        def wrong() -> dict[str, object]:
            return {
                name: (last.get(name), states)
                for name, states in allowed.items()
                if name not in last or not any(state.admits(last[name]) for state in states)
            }

        try:
            wait_for(self.bootstrap(region), lambda client: describe_topics(client, list(allowed)), done)
        except TimeoutError:
            raise AssertionError(f"found and expected: {wrong()}") from None
        return last

    def leader_epoch(self, region: str, topic: str) -> int:
        found = query(self.bootstrap(region), lambda client: describe_topics(client, [topic]))
        return found[topic].partitions[0].leader_epoch

    def status(self, region: str, topic: str) -> dict[int, ReplicaStatus]:
        """The status of the replicas of partition 0, from its leader."""
        (told,) = query(self.bootstrap(region), lambda client: replica_status(client, [Place(topic, 0)])).values()
        assert isinstance(told, PartitionStatus), told
        return {replica.broker: replica for replica in told.replicas}

    def await_even(self, region: str, *topics: str, without: Collection[int] = ()) -> None:
        """Until every replica of partition 0 of each has all there is, observers too; some may be dead."""
        places = [Place(topic, 0) for topic in topics]

        def is_even(told: object) -> bool:
            if not isinstance(told, PartitionStatus):
                return False
            return len({replica.log_end for replica in told.replicas if replica.broker not in without}) == 1

        def done(told: Mapping[Place, object]) -> bool:
            return all(map(is_even, told.values()))

        wait_for(self.bootstrap(region), lambda client: replica_status(client, places), done)

    def lead_quorum_with(self, node: str, region: str) -> None:
        """Let others die and start again until this voter leads the quorum."""
        while (leader := quorum(self.bootstrap(region)).leader_id) != self.ids[node]:
            self.kill(self.names[leader])
            away = self.site.find(self.names[leader]).region
            near = next(n.region for n in self.site.plan.nodes if n.is_broker and n.region != away)

            def moved(found: Quorum, before: int = leader) -> bool:
                return found.leader_id not in (NO_NODE, before)

            wait_for(self.bootstrap(near), describe_quorum, moved)
            self.start()
        self.await_brokers(region, fenced=())

    # -- records -------------------------------------------------------------------------------------------------------------

    def produce(self, region: str, topic: str, values: Sequence[bytes], **settings: Any) -> set[str]:
        """Produce with acks=all from a region; returns the names of the errors, empty for success."""
        outcomes: set[str] = set()

        def delivered(error: KafkaError | None, _: Message) -> None:
            outcomes.add("" if error is None else error.name())

        producer = Producer(
            {"bootstrap.servers": self.bootstrap(region), "acks": "all", "log_level": 2, "linger.ms": 0, **settings}
        )
        for value in values:
            producer.produce(topic, value, partition=0, on_delivery=delivered)
        assert producer.flush(120) == 0
        return outcomes

    def refused(self, region: str, topic: str) -> set[str]:
        """What a record comes to that is sent once."""
        return self.produce(region, topic, [b"refused"], retries=0)

    def read(self, region: str, topic: str, count: int) -> list[bytes]:
        """So many records of partition 0 from its start, which must be all there are."""
        settings = {"bootstrap.servers": self.bootstrap(region), "group.id": "r", "log_level": 2}
        consumer = Consumer({**settings, "auto.offset.reset": "error", "client.rack": region})
        place = TopicPartition(topic, 0, 0)
        found: list[bytes] = []
        try:
            wait_until(lambda: consumer.get_watermark_offsets(place, timeout=30)[1] == count, f"{count} records")
            consumer.assign([place])

            def has_all() -> bool:
                for message in consumer.consume(1000, 0.05):
                    assert message.error() is None, message.error()
                    found.append(message.value() or b"")
                return len(found) >= count

            wait_until(has_all, f"{count} records of {topic} in {region}")
        finally:
            consumer.close()
        return found


class Follower:
    """A consumer that reads along in a thread, and records the history of what it got."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int) -> None:
        places = [(topic, partition) for topic in topics for partition in range(partitions)]
        self.history: list[Event] = [Positioned("follower", place, 0) for place in places]
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": bootstrap,
                "group.id": "follower",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1000, 0.05):
                error, topic, partition = message.error(), message.topic(), message.partition()
                value, offset = message.value(), message.offset()
                if error is not None:
                    self.errors.append(str(error))
                elif topic is not None and partition is not None and value is not None and offset is not None:
                    self.history.append(Polled("follower", (topic, partition), offset, value))

    def check(self, ledgers: Sequence[Ledger]) -> None:
        """It reads every acknowledged record once and in order, without an error on the way."""
        count = sum(ledger.total() for ledger in ledgers)
        wait_until(lambda: self._records() >= count or bool(self.errors), "the reader to catch up", self._received)
        self.close()
        assert self.errors == []
        assert violations([event for ledger in ledgers for event in ledger.history] + self.history) == []
        assert self._records() == count

    def _records(self) -> int:
        return sum(isinstance(event, Polled) for event in self.history)

    def _received(self) -> dict[tuple[str, int], int]:
        """Records by partition."""
        return dict(Counter(event.partition for event in self.history if isinstance(event, Polled)))

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._consumer.close()


def _led(topic: Topic) -> Led:
    partition = topic.partitions[0]
    return Led(partition.leader, frozenset(partition.in_sync))


@contextmanager
def running(directory: Path, text: str) -> Iterator[Stretched]:
    """The topology of a text that names no ports; its processes end with the block."""
    site = new_site(directory, f"base_port = {free_base(text)}\n{text}")
    try:
        bring_up(site, lambda _: None)
        yield Stretched(site)
    finally:
        for process in site.processes.values():
            process.signal(signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)


def free_base(text: str) -> int:
    """The first of as many successive free ports as the topology needs."""
    first = 1_024
    needed = max(ports_of(make_plan(read_topology(f"base_port = {first}\n{text}"), Path("/")))) + 1 - first
    return free_ports(needed)[0]


def ports_of(plan: Plan) -> set[int]:
    """Every port that a topology listens on."""
    bound = {port for node in plan.nodes for port in node.bound.values()}
    controllers = {node.controller_bound for node in plan.nodes if node.controller_bound is not None}
    return bound | controllers | {relay.port for relay in plan.relays}
