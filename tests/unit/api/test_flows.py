"""Flows between regions, and when they are stale."""

from dataclasses import replace

from isthmus_api.clusters.poll import source_report
from isthmus_api.core.cluster_state import ClusterSnapshot, ClusterState, LinkReport, ReplicasReport, SourceReport
from isthmus_api.core.flows import Flow, flows
from isthmus_api.core.inventory import ClusterKind, RegisteredCluster
from isthmus_api.core.lag_series import Latest, Point
from isthmus_client.admin.cluster import BrokerStatus, Cluster
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus
from isthmus_client.metadata import TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint
from isthmus_model.freshness import STALE_MS
from isthmus_model.lag import BEHIND_MS
from isthmus_model.lag_samples import Copy, CopyKind
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import PartitionProgress

NOW = 1_000_000
TWO = RegisteredCluster("two", "second", "x:1", ClusterKind.ISTHMUS, ("eu", "us"), 0)
FAR = RegisteredCluster("far", "distant", "y:1", ClusterKind.KAFKA, ("asia",), 0)
DESCRIBED = Cluster(
    "two", 1, tuple(BrokerStatus(n, "h", 9000 + n, rack, False) for n, rack in ((1, "eu/a"), (2, "us/a")))
)
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def _observed(fetch_lag_ms: int, *, observer_end: int = 10) -> ReplicasReport:
    leader = ReplicaStatus(1, True, False, True, True, True, 0, 0, 0, 10)
    observer = ReplicaStatus(2, False, True, False, False, observer_end == 10, 400, fetch_lag_ms, 0, observer_end)
    return ReplicasReport(NOW, 1, PartitionStatus(0, (leader, observer)))


def _observers(*told: ReplicasReport, away: tuple[Endpoint, ...] = ()) -> Flow:
    replicas = {TopicPartition("t", number): one for number, one in enumerate(told)}
    seen = ClusterSnapshot(state=ClusterState.UP, described=DESCRIBED, replicas=replicas)
    (flow,) = flows(WallMs(NOW), [TWO], {"two": seen}, [], away)
    return flow


def test_observers_are_a_flow_from_the_leaders_region() -> None:
    flow = _observers(_observed(300, observer_end=7))
    assert flow.flow_id == "observer//two/two/eu/us"
    assert (flow.state, flow.copies, flow.lag_ms, flow.lag_records, flow.last_update_ms) == (
        "BEHIND",
        1,
        400,
        3,
        NOW - 300,
    )


def test_an_observer_behind_its_leader_has_the_lag_that_the_leader_reports() -> None:
    told = _observed(300, observer_end=7)
    leader, observer = told.status.replicas
    status = PartitionStatus(0, (leader, replace(observer, is_caught_up=True)))
    flow = _observers(replace(told, status=status))
    assert (flow.state, flow.lag_ms, flow.lag_records) == ("ACTIVE", 400, 3)


def test_an_observer_that_does_not_fetch_is_stale_even_when_caught_up() -> None:
    assert _observers(_observed(STALE_MS)).state == "ACTIVE"
    flow = _observers(_observed(STALE_MS + 1))
    assert (flow.state, flow.lag_records, flow.last_update_ms) == ("STALE", 0, NOW - STALE_MS - 1)


def test_reports_of_an_unreachable_leader_are_stale() -> None:
    flow = _observers(_observed(200), away=(Endpoint("h", 9001),))
    assert (flow.state, flow.last_update_ms) == ("STALE", NOW - 200)
    assert _observers(_observed(200), away=(Endpoint("h", 9002),)).state == "ACTIVE"


def test_a_flow_with_some_stale_copies_is_behind_with_a_message() -> None:
    flow = _observers(_observed(100), _observed(60_000))
    assert (flow.state, flow.message, flow.last_update_ms) == (
        "BEHIND",
        "1 of 2 copies stale",
        NOW - 100,
    )


# -- links and mirrors -------------------------------------------------------------------------------------------------------


def _sample(
    kind: CopyKind, name: str, partition: int, age_ms: int, lag: int, *, source: str = "asia", pace_ms: int = 0
) -> Latest:
    copy = Copy(kind, name, "far", "two", source, "eu", "t", "t", partition, -1)
    return Latest(copy, Point(NOW - age_ms, lag, lag), pace_ms)


def _linked(
    news: dict[TopicPartition, SourceReport], state: str = "ACTIVE", message: str = ""
) -> dict[str, ClusterSnapshot]:
    link = LinkReport("l", "far", state, message, 1, news)
    return {"two": ClusterSnapshot(state=ClusterState.UP, described=DESCRIBED, links=[link])}


def test_mirror_flows_come_from_samples_and_are_stale_without() -> None:
    latest = [
        _sample(CopyKind.MIRROR, "m", 0, 0, 5),
        _sample(CopyKind.MIRROR, "m", 1, STALE_MS, 9),
        _sample(CopyKind.MIRROR, "old", 0, STALE_MS + 1, 7),
        _sample(CopyKind.MIRROR, "slow", 0, STALE_MS + 1, 7, pace_ms=5_000),
        _sample(CopyKind.FOLLOWER, "", 0, 0, 1),
    ]
    mirror, old, slow = flows(WallMs(NOW), [FAR, TWO], {}, latest, ())
    assert (mirror.name, mirror.state, mirror.copies, mirror.lag_ms, mirror.lag_records) == ("m", "ACTIVE", 2, 9, 14)
    assert (old.name, old.state, old.lag_ms, old.last_update_ms) == ("old", "STALE", 7, NOW - STALE_MS - 1)
    assert (slow.name, slow.state, slow.lag_ms) == ("slow", "ACTIVE", 7)


def test_a_link_is_stale_when_its_destination_receives_no_source_position() -> None:
    latest = [_sample(CopyKind.LINK, "l", 0, 0, 5)]
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked({FIRST: SourceReport(NOW, 2, NOW - STALE_MS)}), latest, ())
    assert (flow.state, flow.lag_ms, flow.last_update_ms) == ("ACTIVE", 5, NOW - STALE_MS)
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked({FIRST: SourceReport(NOW, 2, NOW - STALE_MS - 1)}), latest, ())
    assert (flow.state, flow.last_update_ms) == ("STALE", NOW - STALE_MS - 1)


def test_a_link_is_stale_when_its_reporter_is_unreachable() -> None:
    told = _linked({FIRST: SourceReport(NOW - 6_000, 2, NOW - 6_200)})
    latest = [_sample(CopyKind.LINK, "l", 0, 0, 5)]
    # A slow poll makes nothing stale.
    assert [flow.state for flow in flows(WallMs(NOW), [FAR, TWO], told, latest, ())] == ["ACTIVE"]
    (flow,) = flows(WallMs(NOW), [FAR, TWO], told, latest, {Endpoint("h", 9002)})
    assert (flow.state, flow.last_update_ms) == ("STALE", NOW - 6_200)


def test_a_copy_whose_source_has_moved_is_in_one_flow_and_one_that_is_promoted_in_none() -> None:
    told = _linked({FIRST: SourceReport(NOW, 2, NOW)})
    moved = [_sample(CopyKind.LINK, "l", 0, 4_000, 9, source="asia"), _sample(CopyKind.LINK, "l", 0, 0, 5, source="us")]
    stopped = _sample(CopyKind.LINK, "l", 1, 3_000, 7)
    (flow,) = flows(WallMs(NOW), [FAR, TWO], told, [*moved, stopped], ())
    assert (flow.source_region, flow.copies, flow.lag_ms) == ("us", 1, 5)


def test_the_lag_of_a_link_without_new_samples_is_unknown() -> None:
    latest = [_sample(CopyKind.LINK, "l", 0, STALE_MS + 1, 5)]
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked({FIRST: SourceReport(NOW, 2, NOW)}), latest, ())
    assert (flow.state, flow.lag_ms, flow.lag_records) == ("UNKNOWN", None, None)


def test_a_link_that_was_caught_up_too_long_ago_is_behind() -> None:
    linked = _linked({FIRST: SourceReport(NOW, 2, NOW), SECOND: SourceReport(NOW, 2, NOW)})

    def state(*lags: int) -> tuple[str, str]:
        latest = [_sample(CopyKind.LINK, "l", number, 0, lag) for number, lag in enumerate(lags)]
        (flow,) = flows(WallMs(NOW), [FAR, TWO], linked, latest, ())
        return flow.state, flow.message

    assert state(BEHIND_MS, 0) == ("ACTIVE", "")
    assert state(BEHIND_MS + 1, 0) == ("BEHIND", "")


def test_a_copy_that_was_never_caught_up_is_behind_with_lag_and_otherwise_unknown() -> None:
    linked = _linked({FIRST: SourceReport(NOW, 2, NOW), SECOND: SourceReport(NOW, 2, NOW)})

    def flow(*points: Point) -> tuple[str, str, int | None]:
        copies = [_sample(CopyKind.LINK, "l", number, 0, 0).copy for number in range(2)]
        latest = [Latest(copy, point, 0) for copy, point in zip(copies, points, strict=False)]
        (one,) = flows(WallMs(NOW), [FAR, TWO], linked, latest, ())
        return one.state, one.message, one.lag_ms

    assert flow(Point(NOW, None, 3)) == ("BEHIND", "", None)
    assert flow(Point(NOW, None, 0)) == ("UNKNOWN", "", None)
    assert flow(Point(NOW, None, 0), Point(NOW, 0, 0)) == ("BEHIND", "1 of 2 copies unknown", 0)


def test_a_link_that_is_gone_leaves_no_flow() -> None:
    assert flows(WallMs(NOW), [FAR, TWO], _linked({}), [_sample(CopyKind.LINK, "deleted", 0, 0, 5)], ())[0].name == "l"


def test_a_link_that_is_not_active_says_so_itself() -> None:
    latest = [_sample(CopyKind.LINK, "l", 0, 0, 5)]
    news = {FIRST: SourceReport(NOW, 2, NOW - 60_000)}
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked(news, "UNAVAILABLE", "refused"), latest, ())
    assert (flow.state, flow.message, flow.lag_ms) == ("UNAVAILABLE", "refused", 5)


def test_a_link_without_samples_is_a_flow_all_the_same() -> None:
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked({}), [], ())
    assert (flow.state, flow.copies, flow.lag_ms, flow.last_update_ms) == ("UNKNOWN", 0, None, None)
    assert (flow.source_region, flow.target_region) == ("asia", "eu")
    (flow,) = flows(WallMs(NOW), [FAR, TWO], _linked({SECOND: SourceReport(NOW, 2, NOW - 9_000)}), [], ())
    assert (flow.state, flow.copies, flow.lag_ms, flow.last_update_ms) == ("STALE", 1, None, NOW - 9_000)


def _progress(last_heard_lag_ms: int) -> PartitionProgress:
    return PartitionProgress(
        index=0,
        error_code=ErrorCode.none,
        leader_epoch=0,
        log_start_offset=0,
        high_watermark=0,
        log_end_offset=0,
        last_epoch=0,
        source_high_watermark=0,
        last_heard_lag_ms=last_heard_lag_ms,
        caught_up_lag_ms=0,
    )


def test_a_new_leader_without_reports_keeps_the_earlier_one() -> None:
    first = source_report((2, _progress(-1)), None, NOW)
    assert first == SourceReport(NOW, 2, NOW)
    assert source_report((1, _progress(-1)), first, NOW + 9_000) == SourceReport(NOW + 9_000, 1, NOW)
    assert source_report((1, _progress(300)), first, NOW + 9_000) == SourceReport(NOW + 9_000, 1, NOW + 8_700)
    assert source_report(None, first, NOW + 9_000) == first
