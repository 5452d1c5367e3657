"""StreamsGroupHeartbeat (KIP-1071): members join, heartbeat, reconcile their tasks, and leave.

    member's own metadata → topology → its topics → group epoch → target assignment → the member's next assignment

Each step returns the records it needs. The group itself changes only when they are replayed.
"""

from collections.abc import Iterable
from dataclasses import replace

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from kio.schema.streams_group_heartbeat.v0 import response as wire
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest

from isthmus_broker.core.coordinator.result import Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams.configured import ConfiguredTopology, Status, configure
from isthmus_broker.core.group.streams.endpoints import endpoints_of
from isthmus_broker.core.group.streams.group import NOT_VALIDATED, StreamsGroup
from isthmus_broker.core.group.streams.member import StreamsMember, current_record, metadata_record
from isthmus_broker.core.group.streams.reconcile import Target, reconcile
from isthmus_broker.core.group.streams.request import Beat, read
from isthmus_broker.core.group.streams.responses import Statuses, TopicsToCreate, heartbeat_response, left
from isthmus_broker.core.group.streams.tasks import Assignment
from isthmus_broker.core.group.streams.topology import Topology
from isthmus_broker.core.group.streams_sessions import StreamsSessions
from isthmus_broker.core.group.streams_targets import Targets

RETRY_HEARTBEATS = 2
"""Heartbeat intervals after which the creation of an internal topic is tried again."""


class StreamsHeartbeat:
    """The streams group protocol."""

    def __init__(self, registry: Registry, sessions: StreamsSessions, targets: Targets) -> None:
        self._registry = registry
        self._sessions = sessions
        self._targets = targets

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, context: RequestContext, now: Now) -> Result:
        """Process any heartbeat."""
        beat = read(request)
        return self._leave(beat) if beat.leaves else self._beat(beat, context, now)

    # Joining and staying.

    def _beat(self, beat: Beat, context: RequestContext, now: Now) -> Result:
        records: list[Record] = []
        statuses: Statuses = []
        group = self._group(beat, records)
        member = _member(group, beat)
        updated = _updated(member, beat, context)
        is_changed = updated != member
        if is_changed:
            records.append(metadata_record(group.group_id, updated))
        topology = self._topology(group, beat, records)
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            statuses.append((Status.STALE_TOPOLOGY, _stale(updated, group.topology)))
        metadata_hash, configured = self._configure(group, topology)
        if configured.is_ready and beat.owned is not None:
            _check_tasks(beat.owned, configured)
        epoch = self._epoch(group, configured, metadata_hash, is_changed, records)
        self._targets.delay_first(group, now)
        target = self._targets.retarget(group, epoch, updated, configured, records, statuses, now)
        advanced = self._advance(group, updated, target, beat.owned, records, now)
        self._sessions.restart_session(group.group_id, beat.member_id, now)
        if beat.requests_shutdown:
            self._request_shutdown(group, beat.member_id)
        with_tasks = beat.joins or advanced.assigned != member.assigned
        response = self._response(group, beat, advanced, configured, statuses, with_tasks)
        return Result(records=tuple(records), response=self._with_topics(group, configured, response))

    def _group(self, beat: Beat, records: list[Record]) -> StreamsGroup:
        """The group, created when a member joins; an empty classic group is replaced."""
        group = self._registry.groups.get(beat.group_id)
        if not beat.joins:
            if group is None:
                raise UnknownGroup(f"Streams group {beat.group_id} not found.")
            return self._registry.streams_group(beat.group_id)
        if isinstance(group, ClassicGroup) and group.state == ClassicState.EMPTY:
            records.append(group.tombstone())
            group = None
        joined = StreamsGroup(beat.group_id) if group is None else self._registry.streams_group(beat.group_id)
        size_max = self._registry.config.group_streams_max_size
        if len(joined.members) >= size_max:  # in Kafka a member that joins again is refused as well
            message = f"The streams group has reached its maximum capacity of {size_max} members."
            raise CoordinatorError(ErrorCode.group_max_size_reached, message)
        return joined

    def _topology(self, group: StreamsGroup, beat: Beat, records: list[Record]) -> Topology:
        """The group's topology: the one of its first member, until the group is deleted."""
        if beat.topology is None:
            if group.topology is None:  # the record is missing in the log
                raise CoordinatorError(ErrorCode.unknown_server_error)
            return group.topology
        topology = Topology.of_request(beat.topology)
        if group.topology is None:
            records.append(group.topology_record(topology))
            return topology
        if topology.epoch >= group.topology.epoch and topology != group.topology:
            raise CoordinatorError(ErrorCode.invalid_request, "Topology updates are not supported yet.")
        return group.topology

    def _configure(self, group: StreamsGroup, topology: Topology) -> tuple[int, ConfiguredTopology]:
        """The topics' hash and the tasks, from the last check if no topic has changed."""
        if group.configured is not None and group.topology is not None and not group.needs_check():
            return group.metadata_hash, group.configured
        metadata_hash = self._registry.metadata_hash(topology.required_topics())
        is_same = group.topology is not None and metadata_hash == group.metadata_hash
        if group.configured is None or not is_same:
            group.configured = configure(topology, self._registry.view)
        return metadata_hash, group.configured

    def _epoch(
        self,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        metadata_hash: int,
        is_changed: bool,
        records: list[Record],
    ) -> int:
        """Bump the group epoch if the tasks may have to be assigned in another way; returns the group epoch."""
        validated = configured.epoch if configured.is_ready else NOT_VALIDATED
        configs = self._targets.configs(group.group_id)
        before = (group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
        epoch = group.epoch
        if is_changed or (metadata_hash, validated, configs) != before:
            epoch += 1
            records.append(group.epoch_record(epoch, metadata_hash, validated, configs))
            self._registry.outbox.note("group epoch", group.group_id, str(epoch))
        group.checked(epoch)
        return epoch

    def _advance(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target: tuple[int, Assignment],
        owned: Assignment | None,
        records: list[Record],
        now: Now,
    ) -> StreamsMember:
        """The member's next step towards its target."""
        epoch, tasks = target
        if member.reconciled_to(epoch):
            return member
        advanced = reconcile(member, Target(epoch, tasks, group.owners), owned)
        if advanced != member:
            records.append(current_record(group.group_id, advanced))
            self._sessions.watch_revocation(group.group_id, advanced, now)
        return advanced

    # The response.

    def _response(
        self,
        group: StreamsGroup,
        beat: Beat,
        member: StreamsMember,
        configured: ConfiguredTopology,
        statuses: Statuses,
        with_tasks: bool,
    ) -> wire.StreamsGroupHeartbeatResponse:
        if with_tasks and member.user_endpoint is not None:
            group.endpoint_epoch += 1
        endpoints = None
        if group.endpoint_epoch != beat.endpoint_epoch:
            others = [each for each in group.members.values() if each.member_id != member.member_id]
            endpoints = self._endpoints((*others, member), configured)
        if configured.problem is not None:
            statuses.append(configured.problem)
        if group.shutdown_requested_by is not None:
            statuses.append((Status.SHUTDOWN_APPLICATION, _shutdown(group.shutdown_requested_by)))
        interval_ms = self._registry.configs.streams_heartbeat_interval_ms(group.group_id)
        # A new group is created by its records, and starts with 0.
        endpoint_epoch = group.endpoint_epoch if self._registry.groups.get(group.group_id) is group else 0
        return heartbeat_response(member, interval_ms, statuses, endpoint_epoch, endpoints, with_tasks=with_tasks)

    def _endpoints(
        self, members: Iterable[StreamsMember], configured: ConfiguredTopology
    ) -> Iterable[wire.EndpointToPartitions]:
        return endpoints_of(members, configured, self._registry.view)

    def _with_topics(
        self, group: StreamsGroup, configured: ConfiguredTopology, response: wire.StreamsGroupHeartbeatResponse
    ) -> object:
        if not configured.missing_topics:
            return response
        interval_ms = self._registry.configs.streams_heartbeat_interval_ms(group.group_id)
        return TopicsToCreate(response, configured.missing_topics, RETRY_HEARTBEATS * interval_ms)

    # Leaving.

    def _leave(self, beat: Beat) -> Result:
        """A member that has been fenced meanwhile may still request a shutdown."""
        group = self._registry.streams_group(beat.group_id)
        if beat.requests_shutdown and group.members:
            self._request_shutdown(group, beat.member_id)
        member = group.member(beat.member_id)
        return self._sessions.fence(group, member, left(beat.member_id, beat.epoch))

    def _request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        """Have all members shut down; it is not in the log, as in Kafka: a new coordinator does not know of it."""
        if group.shutdown_requested_by is None:
            self._registry.outbox.note("shutdown requested", group.group_id, f"by {member_id}")
            group.shutdown_requested_by = member_id


def _member(group: StreamsGroup, beat: Beat) -> StreamsMember:
    if beat.joins and beat.member_id not in group.members:
        return StreamsMember(member_id=beat.member_id)
    member = group.member(beat.member_id)
    _check_epoch(member, beat)
    return member


def _check_epoch(member: StreamsMember, beat: Beat) -> None:
    """Check a member's epoch: its current one, or the previous one if the response with the new one was lost; joining is always
    possible."""
    if beat.joins or beat.epoch == member.epoch:
        return
    lost_answer = (
        beat.epoch == member.previous_epoch and beat.owned is not None and member.assigned.contains(beat.owned)
    )
    if beat.epoch < member.epoch and lost_answer:
        return
    size = "greater" if beat.epoch > member.epoch else "smaller"
    message = (
        f"The streams group member has a {size} member epoch ({beat.epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise CoordinatorError(ErrorCode.fenced_member_epoch, message)


def _updated(member: StreamsMember, beat: Beat, context: RequestContext) -> StreamsMember:
    return replace(
        member,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if beat.rebalance_timeout_ms is None else beat.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if beat.topology is None else beat.topology.epoch,
        process_id=member.process_id if beat.process_id is None else beat.process_id,
        user_endpoint=member.user_endpoint if beat.user_endpoint is None else beat.user_endpoint,
        client_tags=member.client_tags if beat.client_tags is None else beat.client_tags,
        client_id=context.client_id,
        client_host=context.client_host,
    )


def _check_tasks(owned: Assignment, configured: ConfiguredTopology) -> None:
    """A member can only have tasks that exist."""
    subtopologies = configured.subtopologies or {}
    for tasks in (owned.active, owned.standby, owned.warmup):
        for name, partitions in tasks.items():
            if name not in subtopologies:
                message = f"Subtopology {name} does not exist in the topology."
                raise CoordinatorError(ErrorCode.invalid_request, message)
            count = subtopologies[name].tasks
            for partition in sorted(partitions):
                if not 0 <= partition < count:
                    message = f"Task {partition} for subtopology {name} is invalid. Number of tasks for this subtopology: {count}"
                    raise CoordinatorError(ErrorCode.invalid_request, message)


def _stale(member: StreamsMember, topology: Topology) -> str:
    return f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."


def _shutdown(member_id: str) -> str:
    return f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire application."
