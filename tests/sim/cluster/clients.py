"""The clients of a life: processes on hosts of their own, which record what they send, read and commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from isthmus_client.admin import group_offsets, topics
from isthmus_client.batch_io import FetchLimits
from isthmus_client.client import Client
from isthmus_client.consumer import GroupProtocol
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import Endpoint
from isthmus_wire.errors import ErrorCode

from tests.histories import Acknowledged, Event, FinalRead
from tests.sim.cluster.consumers import Committer, Member, Reader, read_everything
from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import BROKER_PORT
from tests.sim.cluster.mirrored import MIRRORED, LinkWorker, create_mirror_topic
from tests.sim.cluster.operators import Operator
from tests.sim.cluster.plan import REGIONS, Plan, TopicPlan
from tests.sim.cluster.process import Process
from tests.sim.cluster.producers import PipelinedProducer
from tests.sim.cluster.transfers import COPIERS, TRANSACTIONAL, Application, Copier, Transfers

KEYS: Final = 5
RESPONSE_SECONDS: Final = 2.0


class Clients:
    """All clients of one cluster."""

    def __init__(
        self, loop: SimLoop, plan: Plan, random: Random, wall_ms: Callable[[], int], record: Callable[[Event], None]
    ) -> None:
        self.producers: list[PipelinedProducer | LinkWorker | Application] = []
        self.readers: list[Reader] = []
        self.members: list[Member] = []
        self.committers: list[Committer] = []
        self.operators: list[Operator] = []
        self.partitions = [
            TopicPartition(topic.name, index) for topic in plan.topics for index in range(topic.partitions)
        ]
        self._plain = tuple(self.partitions)
        if plan.has_mirror:
            self.partitions.append(MIRRORED)
        if plan.has_transactions:
            self.partitions += TRANSACTIONAL
        self.hosts = [f"c{number}" for number in range(REGIONS)]
        self._loop = loop
        self._plan = plan
        self._random = random
        self._wall_ms = wall_ms
        self._history = record
        self.copied_to = 0
        """The group's offset of the copied partition at the end."""
        self._ends: dict[TopicPartition, int] = {}
        """The highest offset that was acknowledged."""
        self._bootstrap = [Endpoint(f"n{broker}", BROKER_PORT) for broker in plan.brokers]

    def _record(self, event: Event) -> None:
        if isinstance(event, Acknowledged):
            partition = TopicPartition(*event.partition)
            self._ends[partition] = max(self._ends.get(partition, 0), event.offset)
        self._history(event)

    def spawn(self, name: str, host: str, main: Callable[[Client], Coroutine[Any, Any, None]], seconds: float) -> None:
        """Run a client, which connects until it succeeds; operations are given up after `seconds`."""
        process = Process(name, host, self._wall_ms)
        random = Random(self._random.getrandbits(64))

        async def run() -> None:
            client = Client(
                self._bootstrap, operation_seconds=seconds, response_seconds=RESPONSE_SECONDS, randomness=random
            )
            try:
                await main(client)
            finally:
                client.close()

        self._loop.spawn(process, run())

    def create_topics(self, done: Callable[[], None]) -> None:
        """Create the topics and the mirror topic, and then call `done`."""
        planned = [*self._plan.topics, *(self._transactional_topics() if self._plan.has_transactions else ())]
        missing = {topic.name: _new_topic(topic) for topic in planned}

        async def create(client: Client) -> None:
            while missing:
                try:
                    for name, refusal in (await topics.create(client, list(missing.values()))).items():
                        if refusal is None or refusal.code.name == "topic_already_exists":
                            del missing[name]
                except ClientError:
                    continue
            while self._plan.has_mirror:
                try:
                    await create_mirror_topic(client)
                except ClientError as error:
                    if isinstance(error, Refused) and error.code is ErrorCode.topic_already_exists:
                        break
                else:
                    break
            done()

        self.spawn("operator", self.hosts[0], create, 10.0)

    def start(self) -> None:
        """Begin the load."""
        plan, random = self._plan, self._random
        if plan.has_mirror:
            self._start_link_worker()
        if plan.has_transactions:
            self._start_applications()
        for partition in self._plain:
            for number in range(1, 1 + random.randint(1, plan.producers_max)):
                self._start_producer(f"p{number}", partition)
        for number, host in enumerate(self.hosts[: random.randint(1, 2)]):
            is_committed = random.random() < 0.5
            limits = FetchLimits(wait_ms=200, rack=random.choice(("", f"r{number}")), read_committed=is_committed)
            self._start_reader(f"reader{number}", host, limits)
        protocol = random.choice(list(GroupProtocol))
        for number in range(random.randint(0, 2)):
            self._start_member(f"member{number}", protocol)
        for number in range(random.randint(0, 2)):
            self._start_committer(f"committer{number}")

    def _host(self) -> str:
        return self._random.choice(self.hosts)

    def _start_producer(self, name: str, partition: TopicPartition) -> None:
        random = Random(self._random.getrandbits(64))
        keys = KEYS if partition.topic == "compacted" else 0

        async def run(client: Client) -> None:
            producer = PipelinedProducer(
                name, client, partition, self._record, random, keys=keys, think_max=self._plan.think_max,
                request_seconds=random.choice((0.5, 1.5)),
            )  # fmt: skip
            self.producers.append(producer)
            await producer.run()

        self.spawn(f"{name} of {partition}", self._host(), run, 5.0)

    def _start_link_worker(self) -> None:
        random = Random(self._random.getrandbits(64))

        async def run(client: Client) -> None:
            worker = LinkWorker(client, self._record, random)
            self.producers.append(worker)
            await worker.run()

        self.spawn("link worker", self._host(), run, 5.0)

    def _transactional_topics(self) -> list[TopicPlan]:
        factor = self._plan.topics[0].factor
        partitions = Counter(partition.topic for partition in TRANSACTIONAL)
        return [TopicPlan(name, count, factor, {}) for name, count in partitions.items()]

    def _start_applications(self) -> None:
        """An application that transfers, and one that copies the first partition."""
        for name in ("transfers", "copier"):
            self._start_application(name, Random(self._random.getrandbits(64)))

    def _start_application(self, name: str, random: Random) -> None:
        think_max, source = self._plan.think_max, self._plain[0]

        async def run(client: Client) -> None:
            application: Application = (
                Copier(name, client, self._record, random, think_max, source)
                if name == "copier"
                else Transfers(name, client, self._record, random, think_max)
            )
            self.producers.append(application)
            await application.run()

        self.spawn(name, self._host(), run, 5.0)

    def _start_reader(self, name: str, host: str, limits: FetchLimits) -> None:
        async def run(client: Client) -> None:
            reader = Reader(name, client, self.partitions, self._record, limits)
            self.readers.append(reader)
            await reader.run()

        self.spawn(name, host, run, 5.0)

    def _start_member(self, name: str, protocol: GroupProtocol) -> None:
        names = [topic.name for topic in self._plan.topics]

        async def run(client: Client) -> None:
            member = Member(name, client, "group", names, protocol, self._record)
            self.members.append(member)
            await member.run()

        self.spawn(name, self._host(), run, 5.0)

    def _start_committer(self, group: str) -> None:
        random = Random(self._random.getrandbits(64))
        partition = self.partitions[0]

        async def run(client: Client) -> None:
            committer = Committer(group, client, partition, self._record, random)
            self.committers.append(committer)
            await committer.run()

        self.spawn(group, self._host(), run, 0.0)

    def start_operator(self, pause: float) -> None:
        """Change the cluster every `pause` seconds on average."""
        random = Random(self._random.getrandbits(64))

        async def run(client: Client) -> None:
            operator = Operator(client, self._plan, pause, self.partitions, self._ends, self._record, random)
            self.operators.append(operator)
            await operator.run()

        self.spawn("operator", self._host(), run, 2.0)

    def finish(self) -> None:
        """Send and change nothing new."""
        for operator in self.operators:
            operator.is_finishing = True
        for producer in self.producers:
            producer.is_finishing = True
        for committer in self.committers:
            committer.is_finishing = True

    def read_at_the_end(self, done: Callable[[list[FinalRead]], None]) -> None:
        """Read all partitions and all committed offsets, and then call `done`."""

        async def read(client: Client) -> None:
            while True:
                try:
                    plain = [each for each in self.partitions if each not in TRANSACTIONAL]
                    final = await read_everything(client, plain)
                    if self._plan.has_transactions:
                        final += await read_everything(client, TRANSACTIONAL, read_committed=True)
                        await self._record_copied(client)
                    for committer in self.committers:
                        await committer.read(client)
                except ClientError:
                    continue
                done(final)
                return

        self.spawn("final reader", self.hosts[0], read, 30.0)

    async def _record_copied(self, client: Client) -> None:
        committed = await group_offsets.fetch(client, COPIERS, [self._plain[0]], require_stable=True)
        self.copied_to = committed[self._plain[0]].offset if self._plain[0] in committed else 0


def _new_topic(topic: TopicPlan) -> topics.NewTopic:
    return topics.NewTopic(topic.name, topic.partitions, topic.factor, configs=topic.configs)
