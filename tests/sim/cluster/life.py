"""One cluster's life: created from a seed, it runs under load with faults, is healed, and must then be whole and have lost nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final

from tests.histories import Acknowledged, Event, FinalRead, Partition, Polled, Sent, Trimmed, violations
from tests.sim.cluster.ambient import simulated
from tests.sim.cluster.clients import Clients
from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import Machine
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.net import Link, Network
from tests.sim.cluster.peace import InSync, has_recovered, lost_topics, why_not_replicated, why_not_whole
from tests.sim.cluster.plan import Plan, Rates
from tests.sim.cluster.threads import Threads
from tests.sim.cluster.transfers import COPY, copy_problems
from tests.sim.world import Violation, World

BIRTH_SECONDS: Final = 30.0
FAULTS_SECONDS: Final = (2.0, 4.0, 6.0)
HEALING_SECONDS: Final = 150.0
_LOOK_EVERY_SECONDS: Final = 0.1
_CLUSTER_ID: Final = "Y2x1c3Rlci1vZi1zaW1zQQ"


class ClusterLife:
    """The whole product under one seed."""

    def __init__(
        self,
        seed: int,
        *,
        traced: bool = False,
        rates: Rates | None = None,
        has_transactions: bool | None = None,
        faults_seconds: float | None = None,
    ) -> None:
        """The rates of faults, how long there are any, and whether there are transactions, are drawn from the seed, or given."""
        world = self.world = World(seed, traced=traced)
        random = world.random
        self.plan, self.rates = Plan.draw(random), rates or Rates.draw(random)
        if has_transactions is not None:
            self.plan = replace(self.plan, has_transactions=has_transactions)
        self._lossy = {topic.name for topic in self.plan.topics if topic.may_lose}
        self.history: list[Event] = []
        self._sent: dict[tuple[Partition, bytes], float] = {}
        self._loop = loop = SimLoop()
        self._in_sync = InSync(loop.time)
        self._disk_random = Random(random.getrandbits(64))
        loop.net = Network(
            loop, Random(random.getrandbits(64)), Link(self.plan.network_delay, 2 * self.plan.network_delay, 0.0)
        )
        loop.threads = Threads(loop, lambda _process: self.plan.disk_delay * 2 * self._disk_random.random())
        self.machines = [Machine(node, self.plan.settings_of(node), loop, random) for node in self.plan.nodes]
        for machine in self.machines:
            machine.on_metadata = self._in_sync.note
        self.clients = Clients(loop, self.plan, random, self._wall_ms, self._record)
        self.nemesis = Nemesis(
            world, loop, self.plan, self.rates, self.machines, self.clients.hosts,
            lambda machine: has_recovered(self.machines, machine),
        )  # fmt: skip
        self._entropy = Random(random.getrandbits(64))
        self._faults_seconds = random.choice(FAULTS_SECONDS) if faults_seconds is None else faults_seconds
        self._log(f"{self.plan}, {self.rates}")

    def _wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self._loop.time() * 1000)

    def _log(self, what: object) -> None:
        self.world.now = int(self._loop.time() * 1000)
        self.world.log(0, what)

    def _record(self, event: Event) -> None:
        """Keep an event for the check at the end. Where records may be lost, their values and replicas alone are checked."""
        if isinstance(event, Acknowledged | Polled) and event.partition[0] in self._lossy:
            return
        self.history.append(event)
        if isinstance(event, Sent):
            self._sent[event.partition, event.value] = self._loop.time()
        if isinstance(event, Acknowledged) and not self.nemesis.is_anything_lost:
            sent = self._sent[event.partition, event.value]
            problem = why_not_replicated(self.machines, self._in_sync, *event.partition, event.offset, sent)
            if problem is not None:
                self._loop.fault = Violation(problem)
        if self.world.trace is not None:
            self._log(event)

    # -- the phases ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run it; raises Violation, or the first error that no code of the product handled."""
        with simulated(self._loop, self._entropy), _unexpected_errors(self._loop):
            try:
                self._begin()
                self.nemesis.start()
                self._loop.run_until(self._loop.time() + self._faults_seconds)
                self._heal()
                self._finish()
            finally:
                self._loop.end()

    def _begin(self) -> None:
        for machine in self.machines:
            machine.format(_CLUSTER_ID)
        self.nemesis.supervise()
        created: list[None] = []
        self.clients.create_topics(lambda: created.append(None))
        self._expect(lambda: bool(created), "no-birth: the topics could not be created", BIRTH_SECONDS)
        for topic in self.plan.topics:
            if topic.is_trimmed:
                self.history += [Trimmed((topic.name, index), 1 << 62) for index in range(topic.partitions)]
        self.clients.start()
        if self.rates.operate_every is not None:
            self.clients.start_operator(self.rates.operate_every)

    def _heal(self) -> None:
        self._log("heals")
        self.nemesis.stop()
        producers, committers = self.clients.producers, self.clients.committers
        sent = [producer.acknowledged for producer in producers]
        committed = [committer.confirmed for committer in committers]
        self._expect(lambda: all(machine.is_serving for machine in self.machines), "stuck-node: not every node serves")
        if lost := lost_topics(self.machines, self.plan):
            raise Violation(f"lost-topic: {lost} were created, and do not exist")
        self._expect(
            lambda: all(p.acknowledged > before for p, before in zip(producers, sent, strict=True)),
            "stuck-producer: not every producer gets acknowledgements",
        )
        self._expect(
            lambda: all(c.confirmed > before for c, before in zip(committers, committed, strict=True)),
            "stuck-group: not every group can commit",
        )

    def _finish(self) -> None:
        self._log("finishes")
        self.clients.finish()
        self._expect(
            lambda: all(producer.is_done for producer in self.clients.producers),
            "stuck-producer: not everything sent is acknowledged",
        )
        self._expect(lambda: not why_not_whole(self.machines, self.plan), "not-whole")
        final: list[FinalRead] = []
        self.clients.read_at_the_end(final.extend)
        self._expect(lambda: bool(final), "stuck-reader: the partitions cannot be read")
        self.history += final
        problems = violations(self.history, [topic.name for topic in self.plan.topics if topic.is_compacted])
        if self.plan.has_transactions:
            problems += self._copy_problems(final)
        if problems:
            raise Violation("\n".join(problems[:10]))
        self._log(f"ends with {len(self.history)} events and {self._loop.callbacks} callbacks")

    def _copy_problems(self, final: list[FinalRead]) -> Iterator[str]:
        reads = {each.partition: each for each in final}
        source = (self.plan.topics[0].name, 0)
        trimmed = max(
            (each.before for each in self.history if isinstance(each, Trimmed) and each.partition == source), default=0
        )
        return copy_problems(reads[source], reads[COPY], self.clients.copied_to, trimmed)

    def _expect(self, done: Callable[[], bool], otherwise: str, within: float = HEALING_SECONDS) -> None:
        """Continue until the condition holds, which is checked periodically."""
        end = self._loop.time() + within
        while not done():
            if self._loop.time() >= end:
                raise Violation(f"{otherwise}: {self._describe()}")
            self._loop.run_until(self._loop.time() + _LOOK_EVERY_SECONDS)

    def _describe(self) -> str:
        return "\n  ".join(
            [f"{machine.host}: process {machine.process}, serves {machine.is_serving}" for machine in self.machines]
            + why_not_whole(self.machines, self.plan)
        )


class _unexpected_errors(logging.Handler):  # noqa: N801 - used as a context manager
    """Ends the life with the first exception that the product only logs, since no fault of this simulation explains one."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop
        self._logger = logging.getLogger("isthmus_broker")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and isinstance(record.exc_info[1], Exception) and self._loop.fault is None:
            self._loop.fault = record.exc_info[1]

    def __enter__(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False

    def __exit__(self, *_exc_info: object) -> None:
        self._logger.propagate = True
        self._logger.removeHandler(self)
