"""Brokers: registration, heartbeats, fencing, controlled shutdown, unregistration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain, islice
from typing import Final
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from isthmus_broker.core.metadata.image import (
    KRAFT_VERSION,
    METADATA_VERSION,
    Broker,
    ClusterImage,
    Partition,
    Topic,
    directory_of,
    is_reserved,
)
from isthmus_broker.core.metadata.operation import DecisionContext
from isthmus_broker.core.metadata.partitions import (
    check_broker_epoch,
    elr_enabled,
    leader_and_isr_updates,
    partitions_where,
)
from isthmus_broker.core.metadata.replay import ENTER_CONTROLLED_SHUTDOWN, FENCE, UNFENCE
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result, check_size
from isthmus_broker.core.metadata.schema import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureRange,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from isthmus_broker.core.metadata.sessions import NOT_STOPPING, Session, Sessions

PARTITIONS_PER_STEP: Final = 5_000
"""Partitions that one step of a decision changes: the controller serves other requests in between, and a step fits into one batch."""


def register_broker(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    context: DecisionContext,
) -> Result[BrokerRegistrationResponse]:
    """Register a broker process. Its epoch is the offset of its record, unless the process is registered already."""
    broker_id = int(request.broker_id)
    existing = image.brokers.get(broker_id)
    sessions = context.sessions
    _check_registration(image, request, context, sessions, context.monotonic_ms)
    is_same_process = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[MetadataRecord] = []
    epoch = context.next_offset
    if existing is not None and is_same_process:
        epoch = existing.broker_epoch
    elif existing is not None:
        clean = request.previous_broker_epoch == existing.broker_epoch
        records, is_last = _step(_after_restart(image, context, broker_id, clean=clean))
        if not is_last:
            return Result(tuple(records), _registered(-1), is_complete=False)
        sessions.forget(broker_id)
    if not is_same_process:
        # The epoch is the offset of this very record, after those before it.
        epoch += len(records)
    registration = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        endpoints=tuple(
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ),
        features=tuple(
            FeatureRange(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ),
        rack=request.rack,
        fenced=existing.fenced if existing is not None and is_same_process else True,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and is_same_process else False,
        log_dirs=request.log_dirs,
    )
    return Result((*records, registration), _registered(epoch))


def _registered(epoch: int) -> BrokerRegistrationResponse:
    return entity(BrokerRegistrationResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, broker_epoch=epoch)


def _check_registration(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    context: ControllerContext,
    sessions: Sessions,
    now_ms: MonotonicMs,
) -> None:
    if request.cluster_id != context.cluster_id:
        why = f"Expected cluster ID {context.cluster_id}, but got cluster ID {request.cluster_id}"
        raise ControllerError(ErrorCode.inconsistent_cluster_id, why)
    broker_id = int(request.broker_id)
    existing = image.brokers.get(broker_id)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and sessions.is_valid(broker_id, existing.broker_epoch, now_ms)
    ):
        why = (
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
        raise ControllerError(ErrorCode.duplicate_broker_registration, why)
    if request.is_migrating_zk_broker:
        raise ControllerError(ErrorCode.broker_id_not_registered, "Controller does not support registering ZK brokers.")
    _check_directories(image, broker_id, request.log_dirs)
    _check_features(image, request)


def _check_directories(image: ClusterImage, broker_id: int, directories: Sequence[UUID | None]) -> None:
    why = None
    if not directories:
        why = "No directories specified in request"
    elif any(is_reserved(directory) for directory in directories):
        why = "Reserved directory ID in request"
    elif len(set(directories)) != len(directories):
        why = "Duplicate directory ID in request"
    for directory in directories:
        for other_id, other in sorted(image.brokers.items()):
            if why is None and other_id != broker_id and directory in other.log_dirs:
                why = f"Broker {other_id} is already registered with directory {directory}"
    if why is not None:
        raise ControllerError(ErrorCode.invalid_registration, why)


def _check_features(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    """Require that a broker supports the finalised feature levels."""
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if METADATA_VERSION not in ranges:
        why = f"Request features do not contain '{METADATA_VERSION}'"
        raise ControllerError(ErrorCode.invalid_registration, why)
    for name in sorted({*ranges, *image.features} - {KRAFT_VERSION}):
        low, high = ranges.get(name, (0, 0))
        level = image.feature(name)
        if not low <= level <= high:
            why = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive."
            )
            raise ControllerError(ErrorCode.unsupported_version, why)


def _step(updates: Iterator[PartitionChangeRecord]) -> tuple[list[MetadataRecord], bool]:
    """The changes of the next step, and whether it is the last."""
    step: list[MetadataRecord] = list(islice(updates, PARTITIONS_PER_STEP))
    return step, len(step) < PARTITIONS_PER_STEP


def _after_restart(
    image: ClusterImage, context: ControllerContext, broker_id: int, *, clean: bool
) -> Iterator[PartitionChangeRecord]:
    """Handle a new process of a known broker: after an unclean shutdown its replicas may have lost records and leave the ISR."""
    in_sync = partitions_where(image, lambda partition: broker_id in partition.isr)
    if clean or not elr_enabled(image):
        return leader_and_isr_updates(image, context, in_sync, leaving=broker_id)
    eligible = partitions_where(image, lambda partition: broker_id in (partition.eligible_leader_replicas or ()))
    return leader_and_isr_updates(image, context, [*in_sync, *eligible], uncleanly_stopped=broker_id)


class _Next(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    STOPPING = "in controlled shutdown"
    STOP_NOW = "may stop"


def broker_heartbeat(
    image: ClusterImage,
    request: BrokerHeartbeatRequest,
    context: DecisionContext,
) -> Result[BrokerHeartbeatResponse]:
    """Process a heartbeat: a broker is alive, and requests to be unfenced, fenced, or shut down.

    A controlled shutdown takes a step with every heartbeat, because a stopping broker waits only briefly for a response.
    """
    broker_id = int(request.broker_id)
    broker = check_broker_epoch(image, broker_id, request.broker_epoch)
    sessions = context.sessions
    session = sessions.touch(broker_id, broker.broker_epoch, request.current_metadata_offset, context.monotonic_ms)
    # A broker's epoch is the offset of its registration: a broker that has applied that offset knows that it is registered.
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    after = _next_state(image, request, broker, session, sessions)
    records, is_last = _records_for(image, context, broker, session, after)
    if after is _Next.STOPPING:
        # The next records move this broker's leaderships; it may stop when every broker has applied them.
        if records:
            session.stopping_at_offset = context.next_offset + len(records) - 1
    else:
        session.stopping_at_offset = NOT_STOPPING
    if is_last:
        of_directories, is_last = _directory_records(image, context, broker, request)
        records += of_directories
    stops = after is _Next.STOP_NOW and is_last
    if stops:
        sessions.forget(broker_id)  # its next process need not wait for this session's timeout
    response = entity(
        BrokerHeartbeatResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        is_caught_up=caught_up,
        is_fenced=stops or after is _Next.FENCED,
        should_shut_down=stops,
    )
    return Result(tuple(records), response, is_complete=is_last or request.want_shut_down)


def _next_state(
    image: ClusterImage, request: BrokerHeartbeatRequest, broker: Broker, session: Session, sessions: Sessions
) -> _Next:
    if broker.fenced:
        if request.want_shut_down:
            return _Next.STOP_NOW
        caught_up = request.current_metadata_offset >= broker.broker_epoch
        return _Next.UNFENCED if caught_up and not request.want_fence else _Next.FENCED
    if broker.in_controlled_shutdown:
        if _leads(image, broker.broker_id):
            return _Next.STOPPING
        lowest = sessions.lowest_active_offset(image)
        return _Next.STOP_NOW if lowest is None or session.stopping_at_offset <= lowest else _Next.STOPPING
    if request.want_fence:
        return _Next.STOP_NOW if request.want_shut_down else _Next.FENCED
    if request.want_shut_down:
        return _Next.STOPPING if _leads(image, broker.broker_id) else _Next.STOP_NOW
    return _Next.UNFENCED


def _leads(image: ClusterImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def _records_for(
    image: ClusterImage, context: ControllerContext, broker: Broker, session: Session, after: _Next
) -> tuple[list[MetadataRecord], bool]:
    """The records of the next step towards a state, and whether it is the last step."""
    match after:
        case _Next.FENCED | _Next.STOP_NOW:
            return ([], True) if broker.fenced else _fence(image, context, broker)
        case _Next.UNFENCED:
            return _unfence(image, context, broker, session)
        case _Next.STOPPING:
            updates, is_last = _step(_leaving(image, context, broker.broker_id))
            if not broker.in_controlled_shutdown:
                updates.insert(0, _change(broker, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN))
            return updates, is_last


def _leaving(image: ClusterImage, context: ControllerContext, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Move a broker's leaderships, and remove it from every ISR."""
    in_sync = partitions_where(image, lambda partition: broker_id in partition.isr)
    return leader_and_isr_updates(image, context, in_sync, leaving=broker_id)


def _change(broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _fence(image: ClusterImage, context: ControllerContext, broker: Broker) -> tuple[list[MetadataRecord], bool]:
    """Fence a broker, after it has lost its leaderships and left every ISR."""
    updates, is_last = _step(_leaving(image, context, broker.broker_id))
    if is_last:
        updates.append(_change(broker, fenced=FENCE))
    return updates, is_last


def _unfence(
    image: ClusterImage, context: ControllerContext, broker: Broker, session: Session
) -> tuple[list[MetadataRecord], bool]:
    """Unfence a broker: it may become leader, and at once takes over partitions without a leader."""
    if not broker.fenced and not session.is_electing:
        return [], True
    leaderless = partitions_where(image, lambda partition: partition.leader < 0)
    updates, is_last = _step(leader_and_isr_updates(image, context, leaderless, coming=broker.broker_id))
    session.is_electing = not is_last
    if broker.fenced:
        updates.insert(0, _change(broker, fenced=UNFENCE))
    return updates, is_last


def _directory_records(
    image: ClusterImage, context: ControllerContext, broker: Broker, request: BrokerHeartbeatRequest
) -> tuple[list[MetadataRecord], bool]:
    """Replicas in failed directories leave the ISR; cordoned directories get no new replicas."""
    broker_id = broker.broker_id
    failed = [directory for directory in broker.log_dirs if directory in request.offline_log_dirs]
    affected = list(chain.from_iterable(_partitions_in(image, broker_id, directory) for directory in failed))
    records, is_last = _step(leader_and_isr_updates(image, context, affected, leaving=broker_id))
    if not is_last:
        return records, False
    if failed:
        left = tuple(directory for directory in broker.log_dirs if directory not in failed)
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch, log_dirs=left)
        )
    cordoned = request.cordoned_log_dirs
    current = broker.cordoned_log_dirs
    if cordoned is not None and (current is None or set(current) != set(cordoned)):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=cordoned
            )
        )
    return records, True


def _partitions_in(image: ClusterImage, broker_id: int, directory: UUID | None) -> list[tuple[Topic, Partition]]:
    """The partitions whose replica in that directory of the broker is in sync."""
    return partitions_where(
        image, lambda partition: broker_id in partition.isr and directory_of(partition, broker_id) == directory
    )


def fence_stale_brokers(
    image: ClusterImage, context: ControllerContext, sessions: Sessions, now_ms: MonotonicMs
) -> Result[None]:
    """Fence the first broker whose session has timed out; called again until there is none."""
    for broker_id in sessions.expired(image, now_ms)[:1]:
        sessions.forget(broker_id)
        records, is_last = _fence(image, context, image.brokers[broker_id])
        return Result(tuple(records), None, is_complete=is_last)
    return Result((), None)


def fence_dead_broker(
    image: ClusterImage, context: ControllerContext, sessions: Sessions, broker_id: int, epoch: int
) -> Result[None]:
    """Fence a broker whose process is known to be dead, without waiting for its session timeout."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != epoch:
        return Result((), None)
    sessions.forget(broker_id)
    records, is_last = ([], True) if broker.fenced else _fence(image, context, broker)
    return Result(tuple(records), None, is_complete=is_last)


def unregister_broker(
    image: ClusterImage, request: UnregisterBrokerRequest, context: ControllerContext
) -> Result[UnregisterBrokerResponse]:
    """Remove a broker permanently, on an operator's request."""
    broker_id = int(request.broker_id)
    broker = image.brokers.get(broker_id)
    if broker is None:
        why = f"Broker ID {broker_id} is not currently registered"
        raise ControllerError(ErrorCode.broker_id_not_registered, why)
    held = partitions_where(
        image, lambda partition: broker_id in (*partition.isr, *(partition.eligible_leader_replicas or ()))
    )
    records: list[MetadataRecord] = list(leader_and_isr_updates(image, context, held, leaving=broker_id))
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch))
    check_size(records)
    response = entity(
        UnregisterBrokerResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None
    )
    return Result(tuple(records), response)


def register_controller(
    image: ClusterImage, request: ControllerRegistrationRequest, context: ControllerContext
) -> Result[ControllerRegistrationResponse]:
    """Register a controller process with its endpoints and supported features."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        endpoints=tuple(
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ),
        features=tuple(
            FeatureRange(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ),
    )
    response = entity(
        ControllerRegistrationResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None
    )
    return Result((record,), response)
