"""One cluster's life: created from a seed, it runs with faults, is healed, and must then be fully healthy again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from isthmus_broker.core.metadata.auto_placement import satisfy_constraints
from isthmus_broker.core.metadata.partition_change import is_reassigning

from tests.sim.faults import NetRates
from tests.sim.net import Net
from tests.sim.replication.broker import SimBroker
from tests.sim.replication.checkers.leaders import OneLeaderPerEpoch
from tests.sim.replication.checkers.matching import LogsMatch
from tests.sim.replication.checkers.membership import MembersAreReplicas
from tests.sim.replication.checkers.truth import CommittedStays
from tests.sim.replication.clients import Producer
from tests.sim.replication.operators import Operators
from tests.sim.replication.quorum import CONTROLLERS, Quorum
from tests.sim.replication.rates import Plan, Rates
from tests.sim.replication.watchers import Watchers
from tests.sim.world import Violation, World

BIRTH_MS = 3_000
FAULTS_MS = 4_000
HEALING_MS = 60_000
LOOK_EVERY_MS = 100
FIRST_CLIENT = 201


class ReplicationLife:
    def __init__(self, seed: int, *, traced: bool = False) -> None:
        world = self.world = World(seed, traced=traced)
        random = world.random
        self._plan, self._rates = Plan.draw(random), Rates.draw(random)
        self._net_rates = replace(NetRates.draw(random), duplicate=0.0)  # a connection delivers nothing twice
        self._net = Net(world, NetRates())
        self._calm = False
        self._quorum = Quorum(world, self._net, self._rates, elr=self._plan.elr)
        self._brokers: dict[int, SimBroker] = {}
        self.truth = CommittedStays(self._brokers, {topic.name: topic for topic in self._plan.topics})
        leaders = OneLeaderPerEpoch()
        watchers = Watchers(self.truth, LogsMatch(self.truth), leaders)
        self._quorum.watchers = [leaders, MembersAreReplicas(), self.truth]
        for broker_id, rack in enumerate(self._plan.racks, 1):
            self._brokers[broker_id] = SimBroker(
                broker_id, rack, world, self._net, self._quorum, self._brokers, watchers, self._rates.fetch_bytes
            )
        self._quorum.brokers = self._brokers
        self._operators = Operators(self._plan, self._quorum, self._brokers, self.truth)
        self._producers: list[Producer] = []
        self._acknowledged: list[int] = []
        """The acknowledged records of each producer when the faults ended."""
        world.log(0, f"{self._plan}, {self._rates}, {self._net_rates}")

    # -- the phases ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run this life; raises Violation, or AssertionError from inside a core, on a defect."""
        self._give_birth()
        self._net.rates = self._net_rates
        rates = self._rates
        for every, action in (
            (rates.kill_every, self._kill_one),
            (rates.pause_every, self._pause_one),
            (rates.cut_every, self._cut_some),
            (rates.controller_every, self._quorum.move),
            (rates.reassign_every, self._operators.reassign),
            (rates.constrain_every, self._operators.constrain),
            (rates.elect_every, self._operators.elect),
            (rates.retire_every, self._operators.retire),
            (rates.roll_every, lambda: self._some_broker().leave()),
            (rates.sync_every, self._sync_one),
            (rates.wall_clock_every, lambda: self._some_broker().step_wall_clock()),
        ):
            self._plan_often(every, action)
        self.world.run_until(self.world.now + FAULTS_MS)
        self._heal()
        self._expect(self._has_recovered, "no progress after healing")
        for producer in self._producers:
            producer.is_done = True
        self._expect(self._is_whole, "not healthy after healing")
        self._check_order()

    def _give_birth(self) -> None:
        for _, broker in sorted(self._brokers.items()):
            broker.start()
        self._expect(lambda: all(broker.serves for broker in self._brokers.values()), "not started", BIRTH_MS)
        self._operators.create_topics()
        self._expect(self._has_topics, "no topics", BIRTH_MS)
        number = FIRST_CLIENT
        for topic in self._plan.topics:
            for acks in (-1, -1, 1):
                self._producers.append(
                    Producer(number, self.world, self._net, self._brokers, topic.name, acks, self._rates.think_max)
                )
                number += 1

    def _has_topics(self) -> bool:
        return all(self._quorum.image.topics.named(topic.name) is not None for topic in self._plan.topics)

    def _expect(self, done: Callable[[], bool], otherwise: str, within: int = HEALING_MS) -> None:
        """Continue until the condition holds, which is checked periodically."""
        end = self.world.now + within
        while not done():
            if self.world.now >= end:
                raise Violation(f"{otherwise}: {self._describe()}")
            self.world.run_until(self.world.now + LOOK_EVERY_MS)

    def _plan_often(self, every: int | None, action: Callable[[], None]) -> None:
        """Repeat an action at random intervals with this mean, until the world is healed."""
        if every is None:
            return
        pause = every

        def act() -> None:
            if not self._calm:
                action()
                self.world.after(1 + self.world.random.randrange(2 * pause), act)

        self.world.after(1 + self.world.random.randrange(2 * pause), act)

    def _heal(self) -> None:
        self.world.log(0, "heals")
        self._calm = True
        self._net.rates = NetRates()
        self._net.heal()
        for _, broker in sorted(self._brokers.items()):
            broker.resume()
            broker.start_if_dead()
        self._acknowledged = [producer.acknowledged for producer in self._producers]

    # -- final state ---------------------------------------------------------------------------------------------------------

    def _has_recovered(self) -> bool:
        """Every producer has a record acknowledged again."""
        for topic in self._plan.topics:
            self._help(topic.name)
        return all(p.acknowledged > before for p, before in zip(self._producers, self._acknowledged, strict=True))

    def _help(self, topic: str) -> None:
        """Elect uncleanly, as an operator, where no eligible replica is certain to have all records."""
        state = self.truth.state(topic)
        eligible = {*state.isr, *(state.eligible_leader_replicas or ()), *(state.last_known_elr or ())}
        if state.leader < 0 and not eligible and not self.truth.topics[topic].awaits_unclean:
            self._operators.elect_leader(topic, unclean=True)

    def _is_whole(self) -> bool:
        image = self._quorum.image
        return not satisfy_constraints(image, self._quorum.context).records and all(
            self._is_partition_whole(topic.name) for topic in self._plan.topics
        )

    def _is_partition_whole(self, topic: str) -> bool:
        state = self.truth.state(topic)
        observers = set(state.observers or ())
        logs = [self._brokers[replica].logs.get(topic) for replica in state.replicas]
        ends = {None if log is None else (log.end_offset, log.high_watermark) for log in logs}
        return (
            not is_reassigning(state)
            and set(state.isr) == set(state.replicas) - observers
            and len(ends) == 1
            and ends == {(len(self.truth.topics[topic].records),) * 2}
        )

    def _check_order(self) -> None:
        """No idempotent producer's record is duplicated or reordered, except for sequences that retention has deleted."""
        for topic in self._plan.topics:
            last: dict[int, int] = {}
            idempotent = {name for producer in self._producers for name in producer.idempotent_names}
            truth = self.truth.topics[topic.name]
            led = self._brokers[self.truth.state(topic.name).leader].logs[topic.name]
            # A leader that was not in sync may have records that were deleted from the other logs.
            for _, producer, sequence, _ in truth.records[max(led.log_start_offset, truth.start) :]:
                if producer in idempotent and sequence <= last.get(producer, -1):
                    raise Violation(f"{topic.name} has record {sequence} of producer {producer} after {last[producer]}")
                last[producer] = sequence

    def _describe(self) -> str:
        lines = [f"constraints require {satisfy_constraints(self._quorum.image, self._quorum.context).records}"]
        for topic in self._plan.topics:
            named = self._quorum.image.topics.named(topic.name)
            lines.append(f"{named}, {topic}" if named is None else f"{named.partitions[0]}, {topic}")
        for broker_id, broker in self._brokers.items():
            logs = {n: (log.end_offset, log.high_watermark, log.epochs.entries[-2:]) for n, log in broker.logs.items()}
            lines.append(
                f"broker {broker_id}: serves {broker.serves}, knows {broker.offset} of {self._quorum.offset}, {logs}"
            )
        return "\n  ".join(lines)

    # -- faults --------------------------------------------------------------------------------------------------------------

    def _some_broker(self) -> SimBroker:
        return self._brokers[1 + self.world.random.randrange(len(self._brokers))]

    def _kill_one(self) -> None:
        broker = self._some_broker()
        if not broker.is_alive:
            return
        epoch, is_machine = broker.epoch, self.world.chance(self._rates.machine)
        broker.stop(machine=is_machine)
        if is_machine:
            for topic, log in sorted(broker.logs.items()):
                if self.truth.may_lose(broker.id, topic) and log.lose_unsynced(self.world.random):
                    self.truth.machine_lost(log)
        elif self.world.chance(self._rates.refuses):
            self.world.after(1 + self.world.random.randrange(50), lambda: self._tell_of_death(broker, epoch))
        self.world.after(self.world.random.randrange(self._rates.down_max), broker.start_if_dead)

    def _tell_of_death(self, broker: SimBroker, epoch: int) -> None:
        """Let the controller detect that the broker's port refuses connections."""
        if not broker.is_alive and self._quorum.active is not None:
            self._quorum.active.fence_dead(broker.id, epoch)

    def _pause_one(self) -> None:
        broker = self._some_broker()
        broker.pause()
        life = broker.life
        self.world.after(
            self.world.random.randrange(self._rates.pause_max), lambda: broker.resume() if broker.life == life else None
        )

    def _sync_one(self) -> None:
        for _, log in sorted(self._some_broker().logs.items()):
            log.sync()
            log.checkpoint()

    def _cut_some(self) -> None:
        """Partition a region, or a random part of all nodes, from the rest, in one direction or both, for some time."""
        world = self.world
        everybody = [*self._brokers, *CONTROLLERS, *(producer.id for producer in self._producers)]
        if world.chance(0.5):
            region = world.random.randrange(3)
            part = {node for node in everybody if self._region(node) == region}
        else:
            part = {node for node in everybody if world.chance(0.3)}
        is_one_way = world.chance(self._rates.one_way)
        world.log(0, f"partitions {sorted(part)}{' one way' if is_one_way else ''}")
        for a in sorted(part):
            for b in everybody:
                if b not in part:
                    self._net.cut(a, b)
                    if not is_one_way:
                        self._net.cut(b, a)
        world.after(world.random.randrange(self._rates.cut_max), self._net.heal)

    def _region(self, node: int) -> int:
        broker = self._brokers.get(node)
        return node % 3 if broker is None else int(broker.rack[1])
