"""The jobs over a handful of samples, checked against numbers computed by hand."""

from typing import Any

import pytest
from isthmus_lag.jobs import loss, objectives, percentiles, validity
from isthmus_lag.jobs.grouping import LINK, REGIONS, TOPIC
from isthmus_lag.jobs.objectives import Metric, Objective, Scope, parse_objective
from pyspark.sql import DataFrame

from tests.unit.lag.conftest import Frame, row


def values(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in frame.collect()]


def test_usable_samples_are_complete_in_the_window_and_unique(frame: Frame) -> None:
    rows = frame(
        row(999),
        row(1000),
        row(1000, lag_ms=0),
        row(2000, topic=None),
        row(2000, _corrupt="no"),
        row(3000),
    )
    assert values(validity.usable(rows, 1000, 3000), "at_ms") == [(1000,)]


def test_percentiles_are_values_that_were_measured(frame: Frame) -> None:
    rows = [row(at, lag_ms=at, lag_records=2 * at) for at in range(1, 101)]
    rows += [row(at, partition=1, lag_ms=-1, lag_records=7) for at in range(1, 4)]
    result = percentiles.lag(frame(*rows, row(1, topic="u", lag_ms=500)), TOPIC)
    names = ("topic", "samples", "copies", "never", "lag_ms_p50", "lag_ms_p95", "lag_ms_p99", "lag_ms_max")
    assert values(result, *names) == [("u", 1, 1, 0, 500, 500, 500, 500), ("t", 103, 2, 3, 50, 95, 99, 100)]
    assert values(result, "lag_records_p50", "lag_records_p99", "lag_records_max")[1] == (98, 198, 200)


def test_a_copy_that_never_caught_up_is_the_worst(frame: Frame) -> None:
    rows = frame(
        row(1, lag_ms=9, lag_records=1),
        row(2, lag_ms=30, lag_records=5),
        row(3, lag_ms=4, lag_records=2),
        row(1, partition=1, lag_ms=-1, lag_records=8),
        row(1, partition=2, lag_ms=10),
    )
    result = percentiles.worst_copies(rows, 2)
    assert values(result, "partition", "lag_ms_max", "lag_records_max", "lag_records_last", "never", "worst_at_ms") == [
        (1, None, 8, 8, 1, 1),
        (0, 30, 5, 2, 0, 2),
    ]


def test_a_sample_is_valid_for_three_intervals_before_a_gap(frame: Frame) -> None:
    result = validity.with_intervals(frame(*(row(at) for at in (1000, 2000, 3000, 10_000, 11_000))))
    assert values(validity.with_validity(result, 12_000).orderBy("at_ms"), "at_ms", "interval_ms", "until_ms") == [
        (1000, 1000, 2000),
        (2000, 1000, 3000),
        (3000, 1000, 6000),
        (10_000, 1000, 11_000),
        (11_000, 1000, 12_000),
    ]
    names = ("from_ms", "to_ms", "silent_ms", "ended")
    assert values(validity.gaps(result, 12_000), *names) == [(3000, 10_000, 7000, True)]
    assert values(validity.gaps(result, 20_000), *names) == [(11_000, 20_000, 9000, False), (3000, 10_000, 7000, True)]


def test_a_replica_that_becomes_the_leader_leaves_no_gap(frame: Frame) -> None:
    led_by_1 = [row(at, kind="follower", link="", target_broker=2) for at in (1000, 2000)]
    led_by_2 = [row(at, kind="follower", link="", target_broker=1) for at in (3000, 4000, 5000, 6000, 7000)]
    assert values(validity.gaps(validity.with_intervals(frame(*led_by_1, *led_by_2)), 8000), "from_ms") == []


def test_a_partition_with_one_sample_has_the_interval_of_the_others(frame: Frame) -> None:
    rows = (row(1000), row(1500), row(1000, topic="once"))
    result = validity.with_intervals(frame(*rows)).where("topic = 'once'")
    assert values(result, "next_ms", "interval_ms") == [(None, 500)]
    assert values(validity.with_intervals(frame(row(1))), "interval_ms") == [(validity.INTERVAL_UNKNOWN_MS,)]


def test_loss_takes_the_best_copy_of_a_partition_and_all_partitions_of_a_group(frame: Frame) -> None:
    def replica(partition: int, broker: int, lag_ms: int, lag_records: int) -> dict[str, Any]:
        result = {"partition": partition, "target_broker": broker, "lag_ms": lag_ms, "lag_records": lag_records}
        return row(1000, kind="observer", link="", **result)

    rows = frame(replica(0, 4, 900, 9), replica(0, 5, 200, 2), replica(1, 4, 300, 1), replica(1, 5, -1, 50))
    valid = validity.with_validity(validity.with_intervals(rows), 3000)
    result = loss.losses(valid, REGIONS, 1000).orderBy("moment_ms")
    assert values(result, "moment_ms", "partitions", "rpo_ms", "rpo_records") == [(1000, 2, 300, 3), (2000, 2, 300, 3)]


def test_the_loss_is_unknown_if_a_partition_never_caught_up(frame: Frame) -> None:
    rows = frame(row(1000, lag_ms=40, lag_records=4), row(1000, partition=1, lag_ms=-1, lag_records=6), row(2000))
    moments = loss.losses(validity.with_validity(validity.with_intervals(rows), 3000), LINK, 1000)
    assert values(moments.orderBy("moment_ms"), "rpo_ms", "rpo_records", "partitions") == [(None, 10, 2), (None, 6, 2)]
    names = ("moments", "never", "rpo_ms_max", "rpo_records_p50", "rpo_records_max")
    assert values(loss.rpo(moments, LINK), *names) == [(2, 2, None, 6, 10)]


def test_series_have_the_worst_of_each_bucket(frame: Frame) -> None:
    rows = frame(
        *(row(at, lag_ms=lag, lag_records=lag // 10) for at, lag in ((0, 10), (1000, 50), (2000, 20), (3000, 0)))
    )
    moments = loss.losses(validity.with_validity(validity.with_intervals(rows), 4000), LINK, 1000)
    assert values(loss.series(moments, LINK, 2000), "bucket_ms", "rpo_ms", "rpo_records", "never") == [
        (0, 50, 5, 0),
        (2000, 20, 2, 0),
    ]


def judged(frame: Frame, objective: Objective, to_ms: int, *rows: dict[str, Any]) -> DataFrame:
    result = validity.with_intervals(frame(*rows))
    moments = loss.losses(validity.with_validity(result, to_ms), objective.columns, 1000)
    return objectives.judged(moments, validity.gaps(result, to_ms), objective, 1000)


def test_an_objective_is_met_missed_or_unknown(frame: Frame) -> None:
    lags = {1000: 0, 2000: 600, 3000: 700, 4000: 500, 5000: 900, 6000: -1, 7000: 0}
    rows = [row(at, lag_ms=lag, lag_records=1) for at, lag in lags.items()]
    objective = parse_objective("rpo.ms=500")
    outcomes = judged(frame, objective, 12_000, *rows)
    # The last sample counts until 10,000; of 10,000 and 11,000 nothing is known.
    assert values(objectives.shares(outcomes, objective), "met", "missed", "unknown", "met_share") == [(5, 4, 2, 5 / 9)]
    names = ("from_ms", "to_ms", "rpo_ms_max", "rpo_records_max")
    assert values(objectives.misses(outcomes, objective, 1000), *names) == [(2000, 4000, 700, 1), (5000, 7000, 900, 1)]


def test_a_partition_without_samples_makes_a_met_moment_unknown_and_a_missed_one_stays_missed(frame: Frame) -> None:
    whole = [row(at, lag_ms=900 if at == 7000 else 0) for at in range(1000, 9000, 1000)]
    unsampled = [row(at, partition=1) for at in (1000, 2000)]
    objective = parse_objective("link=l:rpo.ms=100")
    outcomes = judged(frame, objective, 9000, *whole, *unsampled)
    assert values(outcomes.orderBy("moment_ms"), "outcome") == [
        *[("met",)] * 4,
        *[("unknown",)] * 2,
        ("missed",),
        ("unknown",),
    ]


def test_an_objective_of_a_topic_concerns_only_that_topic(frame: Frame) -> None:
    objective = parse_objective("topic=a:rpo.records=3")
    rows = (row(1000, topic="a", lag_records=4), row(1000, topic="b", lag_records=90), row(2000, topic="a"))
    outcomes = judged(frame, objective, 3000, *rows)
    assert values(objectives.shares(outcomes, objective), "topic", "met", "missed") == [("a", 1, 1)]


def test_objectives_are_parsed() -> None:
    assert parse_objective("rpo.ms=5000") == Objective(Metric.MS, 5000)
    assert parse_objective("link=a:b:rpo.records=0") == Objective(Metric.RECORDS, 0, Scope.LINK, "a:b")
    assert str(parse_objective("topic=t:rpo.ms=1")) == "topic=t:rpo.ms=1"
    for wrong in ("", "rpo.ms", "rpo.ms=-1", "lag=5", "link=:rpo.ms=1", "group=g:rpo.ms=1", ":rpo.ms=1"):
        with pytest.raises(ValueError, match="expected rpo"):
            parse_objective(wrong)
