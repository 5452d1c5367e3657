"""The controllers: one committed metadata log, an active controller over the product's decisions, and those that were active before.

A deposed controller does not know it at first: it still responds to requests that need no record, and accepts requests whose records are
lost. Its successor commits some of its uncommitted records, without a response to the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node, with_embedded_defaults
from isthmus_broker.core.metadata.auto_placement import balance_leaders, satisfy_constraints
from isthmus_broker.core.metadata.brokers import fence_dead_broker, fence_stale_brokers
from isthmus_broker.core.metadata.features import activation_records
from isthmus_broker.core.metadata.history import ImageHistory
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, snapshot
from isthmus_broker.core.metadata.operation import ControllerOperation, DecisionContext
from isthmus_broker.core.metadata.result import ControllerContext, Result
from isthmus_broker.core.metadata.schema import FeatureLevelRecord, MetadataRecord
from isthmus_broker.core.metadata.sessions import Sessions
from isthmus_broker.edge.requests.table import operation_of

from tests.sim.net import Net
from tests.sim.replication.endpoint import Endpoint, Reply
from tests.sim.replication.rates import SESSION_MS, Rates
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker

CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"
CONTROLLERS: Final = (101, 102, 103)
CONSTRAINTS_MS: Final = 200
NODE: Final[NodeConfig] = resolve_node(BrokerLayers(with_embedded_defaults({}, "data")))
Operation = Callable[[ClusterImage], Result[Any]]


class MetadataWatcher(Protocol):
    """Observer of the committed metadata."""

    def committed(self, before: ClusterImage, after: ClusterImage) -> None:
        """The next image."""


class Pending(NamedTuple):
    """A batch that is not committed yet."""

    records: tuple[MetadataRecord, ...]
    last_offset: int
    reply: Reply
    response: Any


def ignore(_value: Any) -> None:
    """Ignore a response."""


class ActiveController(Endpoint):
    """A controller from its election until it knows that it was deposed."""

    def __init__(self, node_id: int, quorum: Quorum) -> None:
        super().__init__(node_id, quorum.world, quorum.net)
        self.live()
        self.quorum = quorum
        self.history = ImageHistory()
        if quorum.offset >= 0:
            self.history.load_snapshot(list(snapshot(quorum.image)), quorum.offset)
        self.log_end = quorum.offset + 2  # the quorum's own record of a new leader comes first
        self.pending: deque[Pending] = deque()
        self.sessions = Sessions(EMPTY_IMAGE, SESSION_MS, self.clock())
        self._seen: ClusterImage | None = None
        self._fences = False
        self._busy_until = 0

    def activate(self, inherited: list[Pending]) -> None:
        """Commit the batches inherited from the last controller, and start."""
        for batch in inherited:
            if not batch.records:
                continue
            self.history.append(batch.records, self.log_end + len(batch.records) - 1)
            self.log_end += len(batch.records)
            self.quorum.publish(self.history.commit(self.log_end - 1))
        self.run(self._bootstrap, ignore)
        self.sessions = Sessions(self.history.latest, SESSION_MS, self.clock())
        self.later(1, self._watch)
        self.later(CONSTRAINTS_MS, self._satisfy_constraints)
        self.later(self.quorum.rates.balance_ms, self._balance)

    def _bootstrap(self, image: ClusterImage) -> Result[None]:
        records = activation_records(image, self.quorum.context, in_transaction=self.history.in_transaction)
        if records and not self.quorum.elr:
            records = (*records, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
        return Result(records, None)

    def run(self, operation: Operation, reply: Reply) -> None:
        """Decide, append, and respond once the records are committed."""
        if not self.is_alive:
            reply(None)
            return
        result = operation(self.history.latest)
        if not result.records:
            self._respond_later(result.response, reply)
            return
        self.log_end += len(result.records)
        self.history.append(result.records, self.log_end - 1)
        respond = reply if result.is_complete else lambda _: self.run(operation, reply)
        self.pending.append(Pending(result.records, self.log_end - 1, respond, result.response))
        world = self.world
        self._busy_until = max(self._busy_until, world.now + 1 + world.random.randrange(self.quorum.rates.commit_max))
        world.after(self._busy_until - world.now, self._commit)

    def _respond_later(self, response: Any, reply: Reply) -> None:
        """Respond without records. The decision may depend on uncommitted records, and waits for them."""
        if self.pending:
            self.pending.append(Pending((), self.log_end - 1, reply, response))
        else:
            reply(response)

    def _commit(self) -> None:
        if self.quorum.active is not self or not self.pending:
            return
        batch = self.pending.popleft()
        self.quorum.publish(self.history.commit(batch.last_offset))
        batch.reply(batch.response)
        while self.pending and not self.pending[0].records:
            settled = self.pending.popleft()
            settled.reply(settled.response)

    def learn_of_deposition(self) -> None:
        """Stop: another controller is active."""
        self.die()
        self.quorum.zombies.remove(self)
        while self.pending:
            self.pending.popleft().reply(None)

    # -- requests ------------------------------------------------------------------------------------------------------------

    def serve(self, request: Any, reply: Reply) -> None:
        operation = operation_of(request.__api_key__)
        assert isinstance(operation, ControllerOperation)
        self.run(lambda image: operation.perform(image, request, self._decision_context()), reply)

    def _decision_context(self) -> DecisionContext:
        now = self.now()
        return DecisionContext.of(
            self.quorum.context,
            wall_ms=now.wall,
            monotonic_ms=now.monotonic,
            sessions=self.sessions,
            next_offset=self.log_end,
        )

    def fence_dead(self, broker_id: int, epoch: int) -> None:
        """Fence a broker whose process has died."""
        self.run(lambda image: fence_dead_broker(image, self.quorum.context, self.sessions, broker_id, epoch), ignore)

    # -- periodic work -------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Fence brokers without heartbeats, one after another, each when the last is committed."""
        now = self.clock()
        if not self.sessions.expired(self.history.latest, now):
            self.sessions.forget_expired(now)
            deadline = self.sessions.deadline()
            self.later(50 if deadline is None else max(deadline - now, 1), self._watch)
            return
        self.run(
            lambda image: fence_stale_brokers(image, self.quorum.context, self.sessions, now),
            lambda _: self.later(1, self._watch),
        )

    def _satisfy_constraints(self) -> None:
        image = self.history.latest
        if image is not self._seen:
            self._seen = image
            self.run(lambda image: satisfy_constraints(image, self.quorum.context), ignore)
        self.later(CONSTRAINTS_MS, self._satisfy_constraints)

    def _balance(self) -> None:
        self.run(lambda image: balance_leaders(image, self.quorum.context), ignore)
        self.later(self.quorum.rates.balance_ms, self._balance)


class Quorum:
    """The committed metadata, the active controller, and deposed ones that do not know it yet."""

    def __init__(self, world: World, net: Net, rates: Rates, *, elr: bool) -> None:
        self.world = world
        self.net = net
        self.rates = rates
        self.elr = elr
        self.context = ControllerContext(NODE, CLUSTER_ID, Random(world.random.random()), self._new_id)
        self.offset = -1
        self.image = EMPTY_IMAGE
        self.active: ActiveController | None = None
        self.zombies: list[ActiveController] = []
        self.watchers: list[MetadataWatcher] = []
        self.brokers: dict[int, SimBroker] = {}
        self._ids = 5_000
        self._elect([])

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def move(self) -> None:
        """Depose the active controller; the next one is elected a little later."""
        deposed = self.active
        if deposed is None:
            return
        world = self.world
        self.active = None
        self.zombies.append(deposed)
        world.log(deposed.id, "is deposed as the controller")
        deposed.later(world.random.randrange(500), deposed.learn_of_deposition)
        inherited = list(deposed.pending)[: world.random.randrange(len(deposed.pending) + 1)]
        world.after(1 + world.random.randrange(300), lambda: self._elect(inherited))

    def _elect(self, inherited: list[Pending]) -> None:
        random = self.world.random
        controller = ActiveController(CONTROLLERS[random.randrange(len(CONTROLLERS))], self)
        self.active = controller
        self.world.log(controller.id, "is the active controller")
        controller.activate(inherited)

    def contact(self) -> ActiveController | None:
        """The controller that a broker believes to be active."""
        known = [*self.zombies, *([] if self.active is None else [self.active])]
        return known[self.world.random.randrange(len(known))] if known else None

    def publish(self, published: Any) -> None:
        """Send the committed metadata to every broker."""
        if published is None:
            return
        before, self.image, self.offset = self.image, published.image, published.offset
        for watcher in self.watchers:
            watcher.committed(before, self.image)
        for broker in self.brokers.values():
            self.push(broker)

    def push(self, broker: SimBroker) -> None:
        """Send the newest image to a broker; if it is lost, the next heartbeat sends it again."""
        sender = self.active
        if sender is not None and broker.is_alive:
            offset, image = self.offset, self.image
            self.net.send(sender.id, broker.id, lambda: broker.receive_image(offset, image))
