"""A broker's life: registration, metadata, leadership, fetches and produces, and clean or unclean stops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from uuid import UUID

from isthmus_broker.core.metadata.delta import changes_between
from isthmus_broker.core.metadata.features import supported_ranges
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, is_active
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_broker.core.replica.acceptance import ALL_IN_SYNC
from isthmus_broker.core.replica.fetch_session import FetchSessions
from isthmus_broker.core.replica.follower_session import FollowerSessions
from isthmus_broker.core.replica.isr_proposals import IsrProposals
from isthmus_broker.core.replica.leader import IsrProposal
from isthmus_broker.core.replica.leadership import IsrRules, Leadership, isr_rules
from isthmus_broker.core.replica.replica import LogChange
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.replication.manager import leadership_of
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.log import Log
from isthmus_model.clocks import Now
from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import constraints_of
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchRequest, FetchResponse
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener

from tests.sim.net import Net
from tests.sim.replication.endpoint import Endpoint, Reply
from tests.sim.replication.fetching import BACKOFF_MS, Fetcher, Serving, SimTimers
from tests.sim.replication.quorum import CLUSTER_ID, NODE, Quorum
from tests.sim.replication.rates import HEARTBEAT_MS, LAG_MAX_MS, SESSION_MS
from tests.sim.replication.sim_log import LogWatcher, SimLog
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_MS: Final = 50
ROUND_MS: Final = 20
COMMIT_WAIT_MS: Final = 1_500
_FORGOTTEN: Final = (ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered)


class ReplicaWatcher(LogWatcher, Protocol):
    """Observer of replicas."""

    def leads(self, partition: SimPartition, leadership: Leadership) -> None:
        """The replica becomes leader in this epoch."""

    def acknowledged(self, partition: SimPartition, offset: int, record: Any) -> None:
        """A producer gets the acknowledgement that every in-sync replica has the record."""


class SimPartition(Partition):
    """The product's partition on a simulated log, with records instead of batches."""

    __slots__ = ("broker",)

    def __init__(self, broker: SimBroker, topic: str, topic_id: UUID, log: SimLog) -> None:
        super().__init__(broker.id, topic, 0, topic_id, cast(Log, log), broker.active_epoch, broker)
        self.broker = broker

    @property
    def sim_log(self) -> SimLog:
        return cast(SimLog, self.log)

    def _become_leader(self, log: Log, leadership: Leadership, rules: IsrRules, now: Now) -> list[LogChange]:
        self.broker.watcher.leads(self, leadership)
        return super()._become_leader(log, leadership, rules, now)

    def take_record(self, producer: int, sequence: int, acks: int, *, idempotent: bool) -> ErrorCode | int:
        """As `produce`, for one record: returns its offset or the error."""
        error = self.refuses()
        if error is None and acks == ALL_IN_SYNC and self.leader is not None and not self.leader.has_enough_in_sync:
            error = ErrorCode.not_enough_replicas
        if error is not None:
            return error
        log = self.sim_log
        known = log.last_sequence(producer) if idempotent else None
        if known is not None and known[0] >= sequence:
            return known[1] if known[0] == sequence else ErrorCode.duplicate_sequence_number
        if known is not None and known[0] + 1 != sequence:
            return ErrorCode.out_of_order_sequence_number
        log.append([(self.leadership.leader_epoch, producer, sequence, self.broker.next_append())])
        self.appended(self.broker.clock())
        return log.end_offset - 1


class SimBroker(Endpoint):
    """One broker; its logs outlive its processes."""

    def __init__(
        self, broker_id: int, rack: str, world: World, net: Net, quorum: Quorum, brokers: dict[int, SimBroker],
        watcher: ReplicaWatcher, fetch_bytes: int,
    ) -> None:  # fmt: skip
        super().__init__(broker_id, world, net)
        self.rack = rack
        self.quorum = quorum
        self.brokers = brokers
        self.watcher = watcher
        self.fetch_bytes = fetch_bytes
        self.throttles = Throttles(NODE)
        self.logs: dict[str, SimLog] = {}
        self.clean_epoch = -1
        """The broker epoch of the last life, if it ended with a clean shutdown."""
        self._appends = 0

    def next_append(self) -> int:
        self._appends += 1
        return self.id * 1_000_000 + self._appends

    # -- life and death ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.live()
        self.log("starts")
        self.incarnation = UUID(int=(self.id << 32) + self.life)
        self.epoch = -1
        self.image: ClusterImage = EMPTY_IMAGE
        self.offset = -1
        self.is_open = self.serves = self.is_leaving = False
        self.partitions: dict[str, SimPartition] = {}
        self.by_id: dict[bytes, SimPartition] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self._fetcher_of: dict[SimPartition, Fetcher] = {}
        self.sessions = FetchSessions(1_000, self.world.random)
        self.followers = FollowerSessions()
        self.proposals = IsrProposals()
        self._is_proposing = False
        for log in self.logs.values():
            log.reopen()
        self._register()

    def stop(self, *, clean: bool = False, machine: bool = False) -> None:
        """End the process; with `machine`, data that was not synced may be lost too."""
        self.log("has stopped" if clean else "is lost with its machine" if machine else "is killed")
        if clean:
            for log in self.logs.values():
                log.sync()
                log.checkpoint()
        self.clean_epoch = self.epoch if clean else -1
        self.partitions = {}
        self.serves = False
        self.die()

    def leave(self) -> None:
        """Controlled shutdown: hand over leadership, then stop; after a timeout, stop anyway."""
        if self.serves and not self.is_leaving:
            self.is_leaving = True
            self.later(3 * SESSION_MS, partial(self._stop_and_restart, clean=True))
            self._request_shutdown()

    def _request_shutdown(self) -> None:
        def handle(response: Any) -> None:
            if response is None or response.error_code is not ErrorCode.none or response.should_shut_down:
                self._stop_and_restart(clean=True)
            else:
                self.later(ROUND_MS, self._request_shutdown)

        self._heartbeat(handle)

    def _stop_and_restart(self, *, clean: bool) -> None:
        self.stop(clean=clean)
        self.world.after(self.world.random.randrange(500), self.start_if_dead)

    def start_if_dead(self) -> None:
        if not self.is_alive:
            self.start()

    # -- the controller ------------------------------------------------------------------------------------------------------

    def send_to_controller(self, request: Any, handle: Reply) -> None:
        controller = self.quorum.contact()
        if controller is None:
            self.later(RETRY_MS, lambda: handle(None))
        else:
            self.send_request(controller, lambda reply: controller.serve(request, reply), handle)

    def _register(self) -> None:
        def handle(response: Any) -> None:
            if response is not None and response.error_code is ErrorCode.none:
                self.epoch = int(response.broker_epoch)
                self._open_when_known()
            else:
                self.later(RETRY_MS, self._register)

        self.send_to_controller(self._registration(), handle)

    def _registration(self) -> BrokerRegistrationRequest:
        features = tuple(
            entity(Feature, name=f.name, min_supported_version=f.min_supported_version,
                   max_supported_version=f.max_supported_version)
            for f in supported_ranges()
        )  # fmt: skip
        return entity(
            BrokerRegistrationRequest,
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation,
            listeners=(entity(Listener, name="PLAINTEXT", host=f"broker-{self.id}", port=9092, security_protocol=0),),
            features=features,
            rack=self.rack,
            is_migrating_zk_broker=False,
            log_dirs=(UUID(int=90_000 + self.id),),
            previous_broker_epoch=self.clean_epoch,
        )

    def _open_when_known(self) -> None:
        """Open the logs once the image is as new as the registration."""
        if self.is_open:
            return
        if self.offset < self.epoch:
            self.quorum.push(self)
            self.later(ROUND_MS, self._open_when_known)
            return
        self.is_open = True
        self._apply(EMPTY_IMAGE, self.image)
        for topic in sorted(self.logs.keys() - self.partitions.keys()):
            self.logs[topic].records.clear()
            del self.logs[topic]
        self._await_unfencing()
        self.later(LAG_MAX_MS // 2, self._check_isr)

    def _await_unfencing(self) -> None:
        def handle(response: Any) -> None:
            if self._is_granted(response):
                self.serves = True
                self.later(HEARTBEAT_MS, self._beat)
            else:
                self.quorum.push(self)
                self.later(ROUND_MS, self._await_unfencing)

        self._heartbeat(handle)

    def _beat(self) -> None:
        if self.is_leaving:
            return
        self.quorum.push(self)
        self._heartbeat(lambda response: self.later(HEARTBEAT_MS if self._is_granted(response) else 100, self._beat))

    def _is_granted(self, response: Any) -> bool:
        if response is None:
            return False
        if response.error_code in _FORGOTTEN:
            self.send_to_controller(self._registration(), self._registered_again)
            return False
        return response.error_code is ErrorCode.none and not response.is_fenced

    def _registered_again(self, response: Any) -> None:
        if response is not None and response.error_code is ErrorCode.none:
            self.epoch = int(response.broker_epoch)

    def _heartbeat(self, handle: Reply) -> None:
        request = entity(
            BrokerHeartbeatRequest,
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.offset,
            want_fence=False,
            want_shut_down=self.is_leaving,
            offline_log_dirs=(),
        )
        self.send_to_controller(request, handle)

    # -- metadata ------------------------------------------------------------------------------------------------------------

    def receive_image(self, offset: int, image: ClusterImage) -> None:
        """Apply a newer image; older ones are ignored."""
        self._run(self.life, lambda: self._take_image(offset, image))

    def _take_image(self, offset: int, image: ClusterImage) -> None:
        if offset <= self.offset or not self.is_alive:
            return
        before, self.image, self.offset = self.image, image, offset
        if self.is_open:
            self._apply(before, image)

    def _apply(self, before: ClusterImage, after: ClusterImage) -> None:
        changes = changes_between(before, after)
        for topic_id, indexes in changes.partitions.items():
            if indexes:
                topic = after.topics.by_id[topic_id]
                self._update(topic.name, topic_id, topic.partitions[0])
        for resource in sorted(changes.configs):
            held = self.partitions.get(resource.name) if resource.type == ResourceType.TOPIC else None
            if held is not None:
                held.update_isr_rules(self._rules(held.topic), self.clock())

    def _update(self, topic: str, topic_id: UUID, state: PartitionRecord) -> None:
        held = self.partitions.get(topic)
        if self.id not in state.replicas:
            if held is not None:
                del self.partitions[topic], self.by_id[topic_id.bytes]
                del self.logs[topic]
                held.remove()
                self._follow(held)
            return
        if held is None:
            log = self.logs.get(topic)
            if log is None:
                log = self.logs[topic] = SimLog(self.id, topic, self.watcher)
            held = self.partitions[topic] = self.by_id[topic_id.bytes] = SimPartition(self, topic, topic_id, log)
        held.take_leadership(leadership_of(state), self._rules(topic), BACKOFF_MS, self.now())
        self.log(f"{topic}: {held.leadership}, log end {held.sim_log.end_offset}")
        self._follow(held)

    def _rules(self, topic: str) -> IsrRules:
        settings: Mapping[str, str] = self.image.config(ResourceType.TOPIC, topic)
        min_isr = int(settings.get("min.insync.replicas", "1"))
        return isr_rules(constraints_of(settings), lag_max_ms=LAG_MAX_MS, min_isr=min_isr)

    def _follow(self, held: SimPartition) -> None:
        """Fetch the partition from its current leader, or stop."""
        fetcher = None
        if held.follower is not None:
            fetcher = self.fetchers.setdefault(held.follower.leader, Fetcher(self, held.follower.leader))
        before = self._fetcher_of.pop(held, None)
        if before is not None and before is not fetcher:
            before.drop(held)
        if fetcher is not None:
            self._fetcher_of[held] = fetcher
            fetcher.add(held)

    # -- the ISR -------------------------------------------------------------------------------------------------------------

    def active_epoch(self, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and is_active(broker) else None

    def _check_isr(self) -> None:
        for _, held in sorted(self.partitions.items()):
            held.propose(self.clock())
        self.later(LAG_MAX_MS // 2, self._check_isr)

    def truncated(self, held: Partition, end_offset: int) -> None:
        """Logs are never moved to another directory here."""

    def isr_proposed(self, held: Partition, proposal: IsrProposal) -> None:
        assert held.leader is not None
        self.proposals.add((held.topic_id, held.index), held.leader, proposal)
        if not self._is_proposing:
            self._is_proposing = True
            self.later(0, self._send_proposals)

    def _send_proposals(self) -> None:
        request = self.proposals.request(self.id, self.epoch)
        if request is None:
            self._is_proposing = False
            return
        self.log(f"proposes {[p for t in request.topics for p in t.partitions]}")
        self.send_to_controller(request, self._proposals_settled)

    def _proposals_settled(self, response: Any) -> None:
        if response is None:
            self.proposals.copy_lost()
        if response is not None:
            for decided in self.proposals.settle(response):
                held = self.by_id.get(decided.key[0].bytes)
                if held is not None and decided.leadership is not None:
                    held.isr_changed(decided.leader, decided.leadership, self.clock())
        is_settled = response is not None and self.proposals.is_settled
        self.later(0 if is_settled else RETRY_MS, self._send_proposals)

    # -- serving -------------------------------------------------------------------------------------------------------------

    def reachable(self, broker_id: int) -> SimBroker | None:
        """A broker that is not fenced in this broker's image."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else self.brokers[broker_id]

    def find(self, topic: Topic, _index: int) -> Partition | ErrorCode:
        assert isinstance(topic, bytes)
        held = self.by_id.get(topic)
        if held is not None:
            return held
        known = UUID(bytes=topic) in self.image.topics.by_id
        return ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_id

    def serve_fetch(self, request: FetchRequest, reply: Reply) -> None:
        if not self.serves:
            reply(None)
            return
        fetching = self.sessions.begin(request, by_id=True, now_ms=self.clock())
        if isinstance(fetching, ErrorCode):
            reply(FetchResponse((), fetching.value))
        else:
            Serving(self, request, fetching, reply).serve()

    def serve_offsets(self, topic: str, leader_epoch: int, reply: Reply) -> None:
        held = self.partitions.get(topic)
        if held is None or held.refuses(leader_epoch) is not None:
            reply(None)
        else:
            reply((held.sim_log.log_start_offset, held.sim_log.end_offset))

    def serve_produce(
        self, topic: str, producer: int, sequence: int, acks: int, reply: Callable[[ErrorCode], None],
    ) -> None:  # fmt: skip
        held = self.partitions.get(topic)
        if not self.serves or held is None:
            reply(ErrorCode.not_leader_or_follower)
            return
        taken = held.take_record(producer, sequence, acks, idempotent=acks == ALL_IN_SYNC)
        if isinstance(taken, ErrorCode):
            reply(taken)
            return
        record = held.sim_log.records[taken - held.sim_log.base]

        def respond(outcome: ErrorCode | None) -> None:
            if outcome is ErrorCode.none and acks == ALL_IN_SYNC:
                self.watcher.acknowledged(held, taken, record)
            reply(ErrorCode.request_timed_out if outcome is None else outcome)

        if acks != ALL_IN_SYNC or not held.has_uncommitted:
            respond(ErrorCode.none)
            return
        outcome = Uncommitted.now(held).outcome
        Waiting(SimTimers(self), [held], COMMIT_WAIT_MS, outcome, lambda found: found is not None, respond)
