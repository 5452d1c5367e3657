"""The life of two clusters that exchange a topic: brokers and mirrors are killed and stopped, the network fails, then there is peace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_mirror.core.settings import read_settings
from isthmus_mirror.edge.flow import FlowRunner
from isthmus_model.endpoints import Endpoint

from tests.exchange import (
    committed_values,
    differences_of,
    is_level,
    problems_of,
    split_transactions,
    transactions_of,
)
from tests.sim.cluster.ambient import simulated
from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import BROKER_PORT, CONTROLLER_PORT, Machine
from tests.sim.cluster.net import Link, Network
from tests.sim.cluster.process import Process
from tests.sim.cluster.threads import Threads
from tests.sim.copy_life import draw_rate
from tests.sim.exchange.writers import PARTITIONS, PlainWriter, Transactor
from tests.sim.world import Violation, World

V = TypeVar("V")
REGIONS: Final = ("west", "east")
MIRRORS: Final = ("m1", "m2")
BIRTH_SECONDS: Final = 60.0
LONG_SECONDS: Final = 12.0
PEACE_SECONDS: Final = 240.0
_LOOK_EVERY_SECONDS: Final = 0.2
_ROUND_SECONDS: Final = 0.5
_FLOWS: Final = """
clusters = west, east
west.bootstrap.servers = n1:9092
east.bootstrap.servers = n2:9092
west->east.enabled = true
east->west.enabled = true
topics = orders
replication.policy.class = IdentityReplicationPolicy
exactly.once.source.support = enabled
refresh.topics.interval.seconds = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.configs.enabled = false
"""
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True)
class Rates:
    """Chances of faults in each half second, drawn from the seed."""

    kill_broker: float
    kill_mirror: float
    stop_broker: float
    stop_mirror: float
    cut: float
    reset: float

    @classmethod
    def draw(cls, random: Random) -> Rates:
        return cls(*(draw_rate(random, most) for most in (0.2, 0.4, 0.1, 0.4, 0.2, 0.4)))


class MirrorHost:
    """A mirror of both flows: a process that is started again after it was killed."""

    def __init__(self, host: str, loop: SimLoop, wall_ms: Callable[[], int]) -> None:
        self.host = host
        self.process: Process | None = None
        self.starts = 0
        self._loop = loop
        self._wall_ms = wall_ms

    def start(self) -> None:
        self.starts += 1
        self._loop.net.host_up(self.host)
        self.process = Process(f"mirror {self.host}, life {self.starts}", self.host, self._wall_ms)
        settings = read_settings(_FLOWS)
        for flow in settings.flows:
            self._loop.spawn(self.process, self._run(FlowRunner, flow, settings))

    @staticmethod
    async def _run(make: type[FlowRunner], flow: Any, settings: Any) -> None:
        await make(flow, settings.bootstrap[flow.source], settings.bootstrap[flow.target], settings.flows).run()

    def kill(self) -> None:
        if self.process is not None:
            self.process.is_alive = False
            self._loop.net.process_died(self.process, silent=False)
            self.process = None


class ExchangeLife:
    """Everything that is committed in one region must be in the other: once, in order, in whole transactions."""

    def __init__(self, seed: int, *, traced: bool = False, turmoil_seconds: float = LONG_SECONDS) -> None:
        """Faults happen during `turmoil_seconds`."""
        self._turmoil_seconds = turmoil_seconds
        world = self.world = World(seed, traced=traced)
        self._random = random = world.random
        self.rates = Rates.draw(random)
        self._loop = loop = SimLoop()
        delay = random.choice((0.001, 0.01, 0.05))
        loop.net = Network(loop, Random(random.getrandbits(64)), Link(delay, 2 * delay, 0.0))
        disk = Random(random.getrandbits(64))
        loop.threads = Threads(loop, lambda _process: 0.002 * disk.random())
        self.machines = [Machine(number, _settings(number), loop, random) for number in (1, 2)]
        self.mirrors = [MirrorHost(host, loop, self._wall_ms) for host in MIRRORS]
        self._hosts = [machine.host for machine in self.machines] + list(MIRRORS)
        self._writers: list[Transactor | PlainWriter] = []
        self._is_peaceful = False
        self._entropy = Random(random.getrandbits(64))
        self._log(f"{self.rates}, delay {delay}")

    def _wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self._loop.time() * 1000)

    def _log(self, what: str) -> None:
        self.world.now = int(self._loop.time() * 1000)
        self.world.log(0, what)

    # -- the phases ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Violation, or the first error that no code handled."""
        with simulated(self._loop, self._entropy):
            try:
                self._begin()
                self._rounds()
                self._loop.run_until(self._loop.time() + self._turmoil_seconds)
                self._make_peace()
                self._finish()
            finally:
                self._loop.end()

    def _begin(self) -> None:
        for number, machine in enumerate(self.machines):
            machine.format("d2VzdC1vZi1tYW55LXdlcw" if number == 0 else "ZWFzdC1vZi1tYW55LWVhcw")
        self._supervise()
        created: list[str] = []
        for region in REGIONS:
            self._spawn(region, "creator", _create_in(created))
        self._expect(lambda: len(created) == len(REGIONS), "no-birth: the topics could not be created", BIRTH_SECONDS)
        for region in REGIONS:
            self._spawn(region, "transactor", self._transact)
            self._spawn(region, "writer", self._write)

    async def _transact(self, client: Client, region: str) -> None:
        transactor = Transactor(region, client, Random(self._entropy.getrandbits(64)), self._log)
        self._writers.append(transactor)
        await transactor.run()

    async def _write(self, client: Client, region: str) -> None:
        writer = PlainWriter(region, client, Random(self._entropy.getrandbits(64)))
        self._writers.append(writer)
        await writer.run()

    def _spawn(self, region: str, name: str, main: Callable[[Client, str], Coroutine[Any, Any, None]]) -> None:
        machine = self.machines[REGIONS.index(region)]
        process = Process(f"{name} in {region}", f"c{machine.node_id}", self._wall_ms)
        random = Random(self._entropy.getrandbits(64))

        async def run() -> None:
            bootstrap = [Endpoint(machine.host, BROKER_PORT)]
            client = Client(bootstrap, operation_seconds=10.0, response_seconds=3.0, randomness=random)
            try:
                await main(client, region)
            finally:
                client.close()

        self._loop.spawn(process, run())

    def _make_peace(self) -> None:
        self._log("peace")
        self._is_peaceful = True
        self._loop.net.heal()
        for process in (*(machine.process for machine in self.machines), *(mirror.process for mirror in self.mirrors)):
            if process is not None and process.is_stopped:
                self._loop.continue_process(process)
        for writer in self._writers:
            writer.is_finishing = True

    def _finish(self) -> None:
        self._expect(
            lambda: all(writer.is_done for writer in self._writers),
            "stuck-writer: a writer cannot end",
        )
        end = self._loop.time() + PEACE_SECONDS
        while not is_level(values := self._read(committed_values)):
            if problems := problems_of(values):
                raise Violation("\n".join(problems))
            if self._loop.time() >= end:
                raise Violation(f"not-level: {_sizes(values)}")
            self._loop.run_until(self._loop.time() + 1.0)
        problems = problems_of(values) + differences_of(values, REGIONS)
        for region, partitions in self._read(transactions_of).items():
            for partition, copied_in in zip(PARTITIONS, partitions, strict=True):
                if split := split_transactions(copied_in):
                    problems.append(f"split: {partition} of {region} has parts of {split[:3]}")
        if problems:
            raise Violation("\n".join(problems))
        self._log(f"ends with {_sizes(values)} and {self._loop.callbacks} callbacks")

    def _read(self, reading: Callable[[Client, TopicPartition], Coroutine[Any, Any, V]]) -> dict[str, list[V]]:
        """Read every partition of both regions."""
        found: dict[str, list[V]] = {}

        async def read(client: Client, region: str) -> None:
            while region not in found:
                try:
                    found[region] = [await reading(client, partition) for partition in PARTITIONS]
                except ClientError:
                    await asyncio.sleep(_LOOK_EVERY_SECONDS)

        for region in REGIONS:
            self._spawn(region, "reader", read)
        self._expect(lambda: len(found) == len(REGIONS), "stuck-reader: the partitions cannot be read")
        return found

    def _expect(self, done: Callable[[], bool], otherwise: str, within: float = PEACE_SECONDS) -> None:
        end = self._loop.time() + within
        while not done():
            if self._loop.time() >= end:
                raise Violation(otherwise)
            self._loop.run_until(self._loop.time() + _LOOK_EVERY_SECONDS)

    # -- faults --------------------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        hosts: list[Machine | MirrorHost] = [*self.machines, *self.mirrors]
        for one in hosts:
            if one.process is None:
                self._log(f"{one.host} starts")
                one.start()
        self._loop.call_later(2.0 * self._random.random() + 0.05, self._supervise)

    def _rounds(self) -> None:
        if self._is_peaceful:
            return
        rates, chance = self.rates, self.world.chance
        faults: list[tuple[float, Callable[[], None]]] = [
            (rates.kill_broker, lambda: self._kill(self._random.choice(self.machines))),
            (rates.kill_mirror, lambda: self._kill(self._random.choice(self.mirrors))),
            (rates.stop_broker, lambda: self._stop(self._random.choice(self.machines), 3.0)),
            (rates.stop_mirror, lambda: self._stop(self._random.choice(self.mirrors), 15.0)),
            (rates.cut, self._cut),
            (rates.reset, lambda: self._loop.net.reset_some(self._random.random())),
        ]
        for rate, fault in faults:
            if chance(rate):
                fault()
        self._loop.call_later(_ROUND_SECONDS, self._rounds)

    def _kill(self, one: Machine | MirrorHost) -> None:
        if one.process is not None:
            self._log(f"{one.host} is killed")
            one.kill()

    def _stop(self, one: Machine | MirrorHost, most: float) -> None:
        """SIGSTOP for a while: a mirror that is stopped long enough becomes a zombie."""
        process = one.process
        if process is None or process.is_stopped:
            return
        self._log(f"{one.host} stops for a while")
        self._loop.stop_process(process)
        self._loop.call_later(most * self._random.random(), lambda: self._loop.continue_process(process))

    def _cut(self) -> None:
        inside, outside = self._random.sample(self._hosts, 2)
        self._log(f"{inside} and {outside} are cut off from each other")
        self._loop.net.cut(inside, outside)
        self._loop.net.cut(outside, inside)
        self._loop.call_later(5.0 * self._random.random(), self._loop.net.heal)


def _settings(number: int) -> dict[str, str]:
    host = f"n{number}"
    return _SETTINGS | {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://{host}:{BROKER_PORT},CONTROLLER://{host}:{CONTROLLER_PORT}",
        "controller.quorum.voters": f"{number}@{host}:{CONTROLLER_PORT}",
    }


def _create_in(created: list[str]) -> Callable[[Client, str], Coroutine[Any, Any, None]]:
    async def create(client: Client, region: str) -> None:
        while region not in created:
            try:
                (refusal,) = (await topics.create(client, [topics.NewTopic("orders", len(PARTITIONS), 1)])).values()
            except ClientError:
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
                continue
            if refusal is None or refusal.code.name == "topic_already_exists":
                created.append(region)

    return create


def _sizes(contents: dict[str, list[list[bytes]]]) -> dict[str, list[int]]:
    return {region: [len(values) for values in partitions] for region, partitions in contents.items()}
