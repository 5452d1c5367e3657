"""The flows between regions: who copies from where to where, how far behind it is, and when it was last heard of. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from isthmus_client.metadata import TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint
from isthmus_model.lag_samples import CopyKind
from isthmus_model.regions import region_of

from isthmus_api.core.cluster_state import ClusterSeen, LinkSeen, NewsSeen
from isthmus_api.core.lag_series import NEVER, Copy, Latest
from isthmus_api.models import Shape
from isthmus_api.store.inventory import RegisteredCluster

SILENT_MS: Final = 5_000
"""A source or an observer of which a leader has heard nothing for so long is silent: both tell of themselves every second."""
SAMPLES_SILENT_MS: Final = 10_000
"""A copy that only samples tell of is silent when none came for so long, or for three times the pace of its samples."""
_SAMPLES_MISSED: Final = 3


class FlowState(StrEnum):
    """How a flow between regions fares; links have their own states beside these."""

    ACTIVE = "ACTIVE"
    BEHIND = "BEHIND"
    SILENT = "SILENT"


class Flow(Shape):
    """Records that go from one region to another: by a link, a mirror, or to observers.

    A lag of -1 is not known. SILENT: nobody has heard of it since `heard_ms`.
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
    lag_ms: int
    lag_records: int
    heard_ms: int | None


class _Sight(NamedTuple):
    """One copy of one partition."""

    is_silent: bool
    is_caught_up: bool
    heard_ms: int
    lag_ms: int
    lag_records: int


def flows(
    now_ms: WallMs,
    clusters: Sequence[RegisteredCluster],
    seen: Mapping[str, ClusterSeen],
    latest: Iterable[Latest],
    away: Collection[Endpoint],
) -> list[Flow]:
    """By their ids."""
    registered = {cluster.cluster_id: cluster for cluster in clusters}
    looked = {cluster_id: told for cluster_id, told in seen.items() if cluster_id in registered}
    lost = {cluster_id: _away(told, away) for cluster_id, told in looked.items()}
    found = [*_observers(looked, lost), *_samples(now_ms, latest, looked, lost)]
    found += _without_samples(found, registered, looked, lost)
    return sorted((_with_link(flow, looked) for flow in found), key=lambda flow: flow.flow_id)


def _away(seen: ClusterSeen, away: Collection[Endpoint]) -> set[int]:
    """Brokers that do not answer: what they told is the past."""
    if seen.described is None:
        return set()
    return {broker.node_id for broker in seen.described.brokers if broker.endpoint in away}


def _observers(looked: Mapping[str, ClusterSeen], lost: Mapping[str, set[int]]) -> Iterator[Flow]:
    """From the leaders' own word, which is there before any sample is."""
    for cluster_id, seen in looked.items():
        if seen.described is None:
            continue
        regions = {broker.node_id: region_of(broker.rack) for broker in seen.described.brokers}
        gathered: dict[tuple[str, str], list[_Sight]] = {}
        for told in (seen.replicas or {}).values():
            leader = next((one for one in told.status.replicas if one.is_leader), None)
            if leader is None:
                continue
            for one in told.status.replicas:
                if one.is_observer and not one.is_leader:
                    quiet = max(one.fetch_lag_ms, 0)
                    lacking = max(leader.log_end - one.log_end, 0)
                    sight = _Sight(
                        is_silent=quiet > SILENT_MS or told.teller in lost[cluster_id],
                        is_caught_up=one.is_caught_up,
                        heard_ms=told.at_ms - quiet,
                        # To its leader it counts as caught up for half a minute after it last was.
                        lag_ms=one.caught_up_lag_ms if lacking else 0,
                        lag_records=lacking,
                    )
                    pair = regions.get(leader.broker, ""), regions.get(one.broker, "")
                    gathered.setdefault(pair, []).append(sight)
        for (source, target), sights in gathered.items():
            yield _flow(_between(CopyKind.OBSERVER, "", cluster_id, cluster_id, source, target), sights)


def _samples(
    now_ms: WallMs, latest: Iterable[Latest], looked: Mapping[str, ClusterSeen], lost: Mapping[str, set[int]]
) -> Iterator[Flow]:
    """Links and mirrors by the regions that they join."""
    newest: dict[Copy, Latest] = {}
    for one in latest:
        if one.copy.kind in (CopyKind.LINK, CopyKind.MIRROR):
            # A copy whose source is led from another region now has left its former flow.
            place = one.copy._replace(source_region="", target_region="")
            if place not in newest or newest[place].point.at_ms < one.point.at_ms:
                newest[place] = one
    gathered: dict[Copy, list[_Sight]] = {}
    for one in newest.values():
        sight = _sampled(now_ms, one, looked, lost)
        if sight is not None:
            flow = one.copy._replace(source_topic="", topic="", partition=-1, target_broker=-1)
            gathered.setdefault(flow, []).append(sight)
    for copy, sights in gathered.items():
        yield _flow(copy, sights)


def _sampled(
    now_ms: WallMs, latest: Latest, looked: Mapping[str, ClusterSeen], lost: Mapping[str, set[int]]
) -> _Sight | None:
    """None when its link does not copy it any more."""
    copy, point, pace_ms = latest
    is_old = now_ms - point.at_ms > max(SAMPLES_SILENT_MS, _SAMPLES_MISSED * pace_ms)
    is_silent, heard_ms, lag_ms, lag_records = is_old, point.at_ms, point.lag_ms, point.lag_records
    target = looked.get(copy.target_cluster)
    if copy.kind is CopyKind.LINK and target is not None and target.described is not None:
        told = _links(target).get(copy.link)
        news = None if told is None else told.news.get(TopicPartition(copy.topic, copy.partition))
        if news is None:
            return None
        heard_ms = news.heard_ms
        is_silent = _no_word(news, lost[copy.target_cluster])
        if is_old:  # it is heard of, and how late it is now nobody has said
            lag_ms, lag_records = NEVER, NEVER
    return _Sight(is_silent, True, heard_ms, lag_ms, lag_records)


def _no_word(news: NewsSeen, lost: Collection[int]) -> bool:
    """A look that comes late makes nobody silent: what counts is how old the news were when they were told."""
    return news.at_ms - news.heard_ms > SILENT_MS or news.teller in lost


def _without_samples(
    found: Iterable[Flow],
    registered: Mapping[str, RegisteredCluster],
    looked: Mapping[str, ClusterSeen],
    lost: Mapping[str, set[int]],
) -> Iterator[Flow]:
    """A link that no sample tells of is a flow between the first regions of its clusters."""
    flowing = {(flow.target_cluster, flow.name) for flow in found if flow.kind is CopyKind.LINK}
    regions = {cluster_id: (cluster.regions or ("",))[0] for cluster_id, cluster in registered.items()}
    for target, seen in looked.items():
        for link in seen.links:
            if (target, link.name) not in flowing:
                source = regions.get(link.source_cluster, "")
                sights = [
                    _Sight(_no_word(news, lost[target]), True, news.heard_ms, NEVER, NEVER)
                    for news in link.news.values()
                ]
                yield _flow(
                    _between(CopyKind.LINK, link.name, link.source_cluster, target, source, regions[target]), sights
                )


def _with_link(flow: Flow, looked: Mapping[str, ClusterSeen]) -> Flow:
    """A link that is not active says so itself, and why."""
    target = looked.get(flow.target_cluster)
    if flow.kind is not CopyKind.LINK or target is None:
        return flow
    link = _links(target).get(flow.name)
    if link is None or link.state == FlowState.ACTIVE:
        return flow
    return flow.model_copy(update={"state": link.state, "message": link.message})


def _links(seen: ClusterSeen) -> dict[str, LinkSeen]:
    return {link.name: link for link in seen.links}


def _between(kind: CopyKind, name: str, source: str, target: str, source_region: str, target_region: str) -> Copy:
    return Copy(kind, name, source, target, source_region, target_region, "", "", -1, -1)


def _flow(copy: Copy, sights: Sequence[_Sight]) -> Flow:
    """The worst lag of its copies, and the last that was heard of any of them."""
    place = (copy.kind, copy.link, copy.source_cluster, copy.target_cluster, copy.source_region, copy.target_region)
    silent = sum(sight.is_silent for sight in sights)
    is_behind = silent > 0 or not all(sight.is_caught_up for sight in sights)
    state = FlowState.BEHIND if is_behind else FlowState.ACTIVE
    records = [sight.lag_records for sight in sights if sight.lag_records >= 0]
    return Flow(
        flow_id="/".join(place),
        kind=copy.kind,
        name=copy.link,
        source_cluster=copy.source_cluster,
        target_cluster=copy.target_cluster,
        source_region=copy.source_region,
        target_region=copy.target_region,
        state=FlowState.SILENT if sights and silent == len(sights) else state,
        message=f"nothing is heard of {silent} of {len(sights)} copies" if 0 < silent < len(sights) else "",
        copies=len(sights),
        lag_ms=max((sight.lag_ms for sight in sights), default=NEVER),
        lag_records=sum(records) if records else NEVER,
        heard_ms=max((sight.heard_ms for sight in sights), default=None),
    )
