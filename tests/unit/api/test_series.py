"""The ring of lag samples."""

from dataclasses import replace

from isthmus_api.core.lag_series import Bucket, By, Point, Ring, buckets
from isthmus_api.limits import SERIES_MAX, SERIES_POINTS
from isthmus_model.lag_samples import Copy, CopyKind, LagSample


def _sample(at_ms: int, *, topic: str = "t", partition: int = 0, lag_ms: int = 5, regions: str = "a>b") -> LagSample:
    source, target = regions.split(">")
    return LagSample(
        kind=CopyKind.LINK,
        link="l",
        source_cluster="s",
        target_cluster="d",
        source_region=source,
        target_region=target,
        source_topic=topic,
        topic=topic,
        partition=partition,
        target_broker=-1,
        source_end=10,
        target_end=8,
        lag_ms=lag_ms,
        at_ms=at_ms,
    )


def _ring(*samples: LagSample) -> Ring:
    ring = Ring()
    for sample in samples:
        ring.add(sample)
    return ring


def test_a_repeated_or_older_sample_is_left_out() -> None:
    ring = _ring(_sample(5), _sample(5, lag_ms=9), _sample(4), _sample(6))
    ((_, points),) = ring.items()
    assert list(points) == [Point(5, 5, 2), Point(6, 5, 2)]


def test_series_and_their_points_are_bounded() -> None:
    ring = _ring(*(_sample(at) for at in range(SERIES_POINTS + 5)))
    ((_, points),) = ring.items()
    assert (len(points), points[0].at_ms) == (SERIES_POINTS, 5)
    for partition in range(1, SERIES_MAX + 1):
        ring.add(_sample(1000, partition=partition))
    assert len(ring) == SERIES_MAX
    assert min(copy.partition for copy, _ in ring.items()) == 1  # the one without samples for longest is dropped


def test_series_without_recent_samples_have_no_latest() -> None:
    ring = _ring(_sample(100), _sample(200, partition=1))
    assert [(one.copy.partition, one.point.at_ms, one.pace_ms) for one in ring.latest(150)] == [(1, 200, 0)]


def test_samples_are_put_together_by_link_topic_and_regions() -> None:
    ring = _ring(
        _sample(1001, topic="x", lag_ms=5),
        _sample(1002, topic="x", lag_ms=1),
        _sample(1003, topic="y", lag_ms=-1, regions="a>c"),
        _sample(2500, topic="y", lag_ms=8, regions="a>c"),
    )
    link = Copy(CopyKind.LINK, "l", "s", "d", "", "", "", "", -1, -1)
    assert buckets(ring.items(), By.LINK, 1000) == {link: [Bucket(1000, 2, 5, 4), Bucket(2000, 1, 8, 2)]}
    assert buckets(ring.items(), By.TOPIC, 1000) == {
        replace(link, topic="x", source_topic="x"): [Bucket(1000, 1, 5, 2)],
        replace(link, topic="y", source_topic="y"): [Bucket(1000, 1, None, 2), Bucket(2000, 1, 8, 2)],
    }
    assert set(buckets(ring.items(), By.REGIONS, 1000)) == {
        replace(link, source_region="a", target_region="b"),
        replace(link, source_region="a", target_region="c"),
    }
    assert len(buckets(ring.items(), By.COPY, 1000)) == 2
