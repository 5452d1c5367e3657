"""Flows on the map: which records go from one region to another, their state and their lag.

Every copy of a partition is unknown, stale, behind or active; a flow's state sums up its copies. `isthmus_model.freshness` says what is
stale, `isthmus_model.lag` what is behind. An unknown lag is None, and its flow is never ACTIVE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from isthmus_client.admin.replicas import ReplicaStatus
from isthmus_client.metadata import TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint
from isthmus_model.freshness import is_stale
from isthmus_model.lag import is_behind, lag_records, number_or_none
from isthmus_model.lag_samples import Copy, CopyKind
from isthmus_model.regions import region_of
from isthmus_wire.extensions.links import LinkState

from isthmus_api.core.cluster_state import ClusterSnapshot, LinkReport, ReplicasReport, SourceReport
from isthmus_api.core.inventory import RegisteredCluster
from isthmus_api.core.lag_series import Latest
from isthmus_api.models import Shape


class FlowState(StrEnum):
    """The state of a flow; a link that is not active has its own state instead.

    UNKNOWN: no lag is known. STALE: the newest information about every copy is too old. BEHIND: some copy is behind, stale or unknown.
    """

    ACTIVE = "ACTIVE"
    BEHIND = "BEHIND"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"


class Flow(Shape):
    """Records that go from one region to another: by a link, a mirror flow, or to observers.

    `lag_ms` and `lag_records` are null when the lag is unknown; `last_update_ms` is the time of the newest information.
    """

    flow_id: str
    kind: CopyKind
    name: str
    source_cluster: str
    target_cluster: str
    source_region: str
    target_region: str
    state: str
    message: str
    copies: int
    lag_ms: int | None
    lag_records: int | None
    last_update_ms: int | None


class _CopyState(NamedTuple):
    """One copy of one partition, by the newest information about it."""

    is_stale: bool
    is_in_sync: bool
    last_update_ms: int
    lag_ms: int | None
    lag_records: int | None

    @property
    def is_unknown(self) -> bool:
        return self.lag_ms is None and not self.lag_records

    @property
    def is_behind(self) -> bool:
        return not self.is_in_sync or is_behind(self.lag_ms, self.lag_records)


def flows(
    now_ms: WallMs,
    clusters: Sequence[RegisteredCluster],
    snapshots: Mapping[str, ClusterSnapshot],
    latest: Iterable[Latest],
    unreachable: Collection[Endpoint],
) -> list[Flow]:
    """All flows, by their ids."""
    registered = {cluster.cluster_id: cluster for cluster in clusters}
    polled = {cluster_id: one for cluster_id, one in snapshots.items() if cluster_id in registered}
    lost = {cluster_id: _unreachable_brokers(one, unreachable) for cluster_id, one in polled.items()}
    on_map = [*_observers(polled, lost), *_samples(now_ms, latest, polled, lost)]
    on_map += _without_samples(on_map, registered, polled, lost)
    return sorted((_with_link(flow, polled) for flow in on_map), key=lambda flow: flow.flow_id)


def _unreachable_brokers(snapshot: ClusterSnapshot, unreachable: Collection[Endpoint]) -> set[int]:
    """Unreachable brokers: their reports are stale."""
    if snapshot.described is None:
        return set()
    return {broker.node_id for broker in snapshot.described.brokers if broker.endpoint in unreachable}


def _observers(polled: Mapping[str, ClusterSnapshot], unreachable: Mapping[str, set[int]]) -> Iterator[Flow]:
    """Observers, as their leaders report them: sooner than by samples."""
    for cluster_id, snapshot in polled.items():
        if snapshot.described is None:
            continue
        regions = {broker.node_id: region_of(broker.rack) for broker in snapshot.described.brokers}
        copies: dict[tuple[str, str], list[_CopyState]] = {}
        for report in (snapshot.replicas or {}).values():
            leader = next((one for one in report.status.replicas if one.is_leader), None)
            if leader is None:
                continue
            for one in report.status.replicas:
                if one.is_observer and not one.is_leader:
                    pair = regions.get(leader.broker, ""), regions.get(one.broker, "")
                    copies.setdefault(pair, []).append(_observer(report, leader, one, unreachable[cluster_id]))
        for (source, target), states in copies.items():
            yield _flow(_between(CopyKind.OBSERVER, "", cluster_id, cluster_id, source, target), states)


def _observer(
    report: ReplicasReport, leader: ReplicaStatus, observer: ReplicaStatus, unreachable: Collection[int]
) -> _CopyState:
    age_ms = number_or_none(observer.fetch_lag_ms)
    lacking = lag_records(leader.log_end, observer.log_end)
    # A leader keeps a replica in the ISR for half a minute after it was last caught up.
    lag_ms = 0 if lacking == 0 else number_or_none(observer.caught_up_lag_ms)
    return _CopyState(
        is_stale=is_stale(age_ms) or report.reporter in unreachable,
        is_in_sync=observer.is_caught_up,
        last_update_ms=report.at_ms - (age_ms or 0),
        lag_ms=lag_ms,
        lag_records=lacking,
    )


def _samples(
    now_ms: WallMs, latest: Iterable[Latest], polled: Mapping[str, ClusterSnapshot], unreachable: Mapping[str, set[int]]
) -> Iterator[Flow]:
    """Links and mirror flows, by the regions that they join."""
    newest: dict[Copy, Latest] = {}
    for one in latest:
        if one.copy.kind in (CopyKind.LINK, CopyKind.MIRROR):
            # A copy whose source leader has moved to another region has left its former flow.
            place = replace(one.copy, source_region="", target_region="")
            if place not in newest or newest[place].point.at_ms < one.point.at_ms:
                newest[place] = one
    copies: dict[Copy, list[_CopyState]] = {}
    for one in newest.values():
        state = _sampled(now_ms, one, polled, unreachable)
        if state is not None:
            flow = replace(one.copy, source_topic="", topic="", partition=-1, target_broker=-1)
            copies.setdefault(flow, []).append(state)
    for copy, states in copies.items():
        yield _flow(copy, states)


def _sampled(
    now_ms: WallMs, latest: Latest, polled: Mapping[str, ClusterSnapshot], unreachable: Mapping[str, set[int]]
) -> _CopyState | None:
    """None when its link no longer copies the partition."""
    copy, point, pace_ms = latest
    sample_is_stale = is_stale(now_ms - point.at_ms, pace_ms)
    target = polled.get(copy.target_cluster)
    if copy.kind is not CopyKind.LINK or target is None or target.described is None:
        return _CopyState(sample_is_stale, True, point.at_ms, point.lag_ms, point.lag_records)
    link = _links(target).get(copy.link)
    news = None if link is None else link.sources.get(TopicPartition(copy.topic, copy.partition))
    if news is None:
        return None
    # The destination receives the source's position, but there is no recent sample: the lag is unknown.
    lag_ms, records = (None, None) if sample_is_stale else (point.lag_ms, point.lag_records)
    return _CopyState(_is_stale(news, unreachable[copy.target_cluster]), True, news.last_update_ms, lag_ms, records)


def _is_stale(news: SourceReport, unreachable: Collection[int]) -> bool:
    """By the age of the source's position when it was reported: a late poll does not make it stale."""
    return is_stale(news.at_ms - news.last_update_ms) or news.reporter in unreachable


def _without_samples(
    sampled: Iterable[Flow],
    registered: Mapping[str, RegisteredCluster],
    polled: Mapping[str, ClusterSnapshot],
    unreachable: Mapping[str, set[int]],
) -> Iterator[Flow]:
    """A link without samples is a flow between the first regions of its clusters, and its lag is unknown."""
    flowing = {(flow.target_cluster, flow.name) for flow in sampled if flow.kind is CopyKind.LINK}
    regions = {cluster_id: (cluster.regions or ("",))[0] for cluster_id, cluster in registered.items()}
    for target, snapshot in polled.items():
        for link in snapshot.links:
            if (target, link.name) not in flowing:
                source = regions.get(link.source_cluster, "")
                states = [
                    _CopyState(_is_stale(news, unreachable[target]), True, news.last_update_ms, None, None)
                    for news in link.sources.values()
                ]
                flow = _between(CopyKind.LINK, link.name, link.source_cluster, target, source, regions[target])
                yield _flow(flow, states)


def _with_link(flow: Flow, polled: Mapping[str, ClusterSnapshot]) -> Flow:
    """The state and message of a link that is not active replace the flow's."""
    target = polled.get(flow.target_cluster)
    if flow.kind is not CopyKind.LINK or target is None:
        return flow
    link = _links(target).get(flow.name)
    if link is None or link.state == LinkState.ACTIVE:
        return flow
    return flow.model_copy(update={"state": link.state, "message": link.message})


def _links(snapshot: ClusterSnapshot) -> dict[str, LinkReport]:
    return {link.name: link for link in snapshot.links}


def _between(kind: CopyKind, name: str, source: str, target: str, source_region: str, target_region: str) -> Copy:
    return Copy(kind, name, source, target, source_region, target_region, "", "", -1, -1)


def _flow(copy: Copy, states: Sequence[_CopyState]) -> Flow:
    """The worst of its copies, and the newest information about any of them."""
    place = (copy.kind, copy.link, copy.source_cluster, copy.target_cluster, copy.source_region, copy.target_region)
    state, message = _summary(states)
    return Flow(
        flow_id="/".join(place),
        kind=copy.kind,
        name=copy.link,
        source_cluster=copy.source_cluster,
        target_cluster=copy.target_cluster,
        source_region=copy.source_region,
        target_region=copy.target_region,
        state=state,
        message=message,
        copies=len(states),
        lag_ms=max((one.lag_ms for one in states if one.lag_ms is not None), default=None),
        lag_records=_sum([one.lag_records for one in states if one.lag_records is not None]),
        last_update_ms=max((one.last_update_ms for one in states), default=None),
    )


def _summary(states: Sequence[_CopyState]) -> tuple[FlowState, str]:
    stale = sum(one.is_stale for one in states)
    unknown = sum(one.is_unknown and not one.is_stale for one in states)
    if states and stale == len(states):
        return FlowState.STALE, ""
    if unknown == len(states):
        return FlowState.UNKNOWN, ""
    parts = [
        f"{count} of {len(states)} copies {what}" for count, what in ((stale, "stale"), (unknown, "unknown")) if count
    ]
    is_late = bool(parts) or any(one.is_behind for one in states)
    return FlowState.BEHIND if is_late else FlowState.ACTIVE, ", ".join(parts)


def _sum(numbers: Sequence[int]) -> int | None:
    return sum(numbers) if numbers else None
