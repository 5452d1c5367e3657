"""Producers, which send one record at a time and retry until it is acknowledged."""

from __future__ import annotations

from isthmus_broker.core.replica.acceptance import ALL_IN_SYNC
from isthmus_wire.errors import ErrorCode

from tests.sim.net import Net
from tests.sim.replication.broker import COMMIT_WAIT_MS, SimBroker
from tests.sim.replication.endpoint import Endpoint
from tests.sim.world import World

RETRY_MS = 40
GIVES_UP_AFTER = 8
"""Sequence errors after which a producer starts with a new id: earlier records were lost, or a deposed leader does not have them."""
GENERATIONS_MAX = 1_000
_SEQUENCE = (ErrorCode.out_of_order_sequence_number, ErrorCode.duplicate_sequence_number)


class Producer(Endpoint):
    """A producer: idempotent with acks=all; with acks=1 it never retries."""

    def __init__(
        self, node_id: int, world: World, net: Net, brokers: dict[int, SimBroker], topic: str, acks: int, think_max: int
    ) -> None:
        super().__init__(node_id, world, net)
        self.topic = topic
        self.think_max = think_max
        self.acknowledged = 0
        self.is_done = False
        self._brokers = brokers
        self._acks = acks
        self._generation = 0
        self._sequence = 0
        self._refusals = 0
        self._leader = 1
        self.live()
        self._send()

    @property
    def idempotent_names(self) -> range:
        """The producer ids of its generations, if it is idempotent."""
        first = self.id * GENERATIONS_MAX
        return range(first, first + (self._generation + 1 if self._acks == ALL_IN_SYNC else 0))

    def _send(self) -> None:
        if self.is_done:
            return
        broker = self._brokers[self._leader]
        producer, sequence = self.id * GENERATIONS_MAX + self._generation, self._sequence
        self.send_request(
            broker,
            lambda reply: broker.serve_produce(self.topic, producer, sequence, self._acks, reply),
            self._answered,
            COMMIT_WAIT_MS + 500,
        )

    def _answered(self, outcome: ErrorCode | None) -> None:
        if outcome is ErrorCode.none:
            self.acknowledged += 1
            self._sequence += 1
            self._refusals = 0
            self.later(1 + self.world.random.randrange(self.think_max), self._send)
            return
        if self._acks != ALL_IN_SYNC:
            self._sequence += 1
        elif outcome in _SEQUENCE:
            self._refusals += 1
            if self._refusals == GIVES_UP_AFTER:
                self._generation, self._sequence, self._refusals = self._generation + 1, 0, 0
        self._look_for_leader()
        self.later(RETRY_MS, self._send)

    def _look_for_leader(self) -> None:
        """The leader according to a random broker."""
        ids = sorted(self._brokers)
        broker = self._brokers[ids[self.world.random.randrange(len(ids))]]
        if broker.is_alive and (topic := broker.image.topics.named(self.topic)) is not None:
            leader = topic.partitions[0].leader
            self._leader = leader if leader > 0 else broker.id
