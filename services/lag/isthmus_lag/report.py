"""The batch report: the results of all jobs over the samples of a window, as one document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from isthmus_model.lag_samples import VERSION as SAMPLE_VERSION
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage
from pyspark.storagelevel import StorageLevel

from isthmus_lag.explanations import DEFINITIONS
from isthmus_lag.jobs import loss, objectives, percentiles, validity
from isthmus_lag.jobs.grouping import COPIED, COPY, By
from isthmus_lag.jobs.objectives import Objective
from isthmus_lag.offsets import STRATEGY
from isthmus_lag.samples import CORRUPT, LATE_MS
from isthmus_lag.source import FORMAT

VERSION: Final = 1
ROWS_MAX: Final = 1000
"""Rows of one table: the worst groups; `left_out` counts the others."""
WORST_COPIES: Final = 20
SERIES_BUCKETS: Final = 240
STEP_MIN_MS: Final = 1000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The window and the objectives; times in milliseconds since 1970. Without `step_ms`, the step is the interval of the samples."""

    from_ms: int | None = None
    to_ms: int | None = None
    step_ms: int | None = None
    objectives: Sequence[Objective] = field(default_factory=tuple)


class NothingToReport(Exception):
    """The window contains no sample."""


def read_samples(
    spark: SparkSession, bootstrap: str, topic: str, from_ms: int | None = None, to_ms: int | None = None
) -> DataFrame:
    """The records that may contain samples of the window: a sample is written at or after its time."""
    reader = spark.read.format(FORMAT).option("bootstrap", bootstrap).option("topic", topic)
    if from_ms is not None:
        reader = reader.option("startingTimestamp", str(from_ms)).option(STRATEGY, "latest")
    if to_ms is not None:
        reader = reader.option("endingTimestamp", str(to_ms + LATE_MS))
    return reader.load()


def make_report(rows: DataFrame, options: ReportOptions) -> Document:
    """Run all jobs over rows of the data source; raises NothingToReport."""
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    samples = validity.usable(rows, options.from_ms, options.to_ms)
    samples = validity.with_intervals(samples).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _document(rows, samples, options)
    finally:
        samples.unpersist()
        rows.unpersist()


def _document(rows: DataFrame, samples: DataFrame, options: ReportOptions) -> Document:
    counts = _counts(rows)
    facts = samples.agg(
        F.count("*").alias("samples"),
        F.count_distinct(*COPY).alias("copies"),
        F.count_distinct(*COPIED).alias("partitions"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        percentiles.measured("interval_ms", "0.5").alias("interval_ms"),
    ).first()
    if facts is None or facts["samples"] == 0:
        raise NothingToReport(f"no lag samples in the window ({counts['records']} records read)")
    interval = facts["interval_ms"]
    step = options.step_ms or max(interval, STEP_MIN_MS)
    to_ms = facts["last_ms"] + interval if options.to_ms is None else options.to_ms
    from_ms = facts["first_ms"] if options.from_ms is None else options.from_ms
    valid = validity.with_validity(samples, to_ms)
    gaps = validity.gaps(samples, to_ms).persist(StorageLevel.MEMORY_AND_DISK)
    moments = {by: loss.losses(valid, by.columns, step).persist(StorageLevel.MEMORY_AND_DISK) for by in By}
    bucket = max(-(-(to_ms - from_ms) // SERIES_BUCKETS // step) * step, step)
    try:
        return {
            "version": VERSION,
            "definitions": DEFINITIONS,
            "window": {"from_ms": from_ms, "to_ms": to_ms, "step_ms": step, "bucket_ms": bucket},
            "samples": {**facts.asDict(), **counts},
            "objectives": [_judgement(moments, gaps, objective, step) for objective in options.objectives],
            "rpo": {by.name.lower(): _table(loss.rpo(moments[by], by.columns)) for by in By},
            "lag": {by.name.lower(): _table(percentiles.lag(samples, by.columns)) for by in By},
            "worst_copies": _table(percentiles.worst_copies(samples, WORST_COPIES)),
            "gaps": _table(gaps),
            "series": {
                by.name.lower(): _rows(loss.series(moments[by], by.columns, bucket)) for by in (By.LINK, By.REGIONS)
            },
        }
    finally:
        for kept in (gaps, *moments.values()):
            kept.unpersist()


def _counts(rows: DataFrame) -> Document:
    """Count the records read, those that are not samples, and those of a later version."""
    later = F.count_if(F.col("version") > SAMPLE_VERSION).alias("later_versions")
    counts = rows.agg(F.count("*").alias("records"), F.count(CORRUPT).alias("corrupt"), later).first()
    assert counts is not None
    reasons = rows.where(F.col(CORRUPT).isNotNull()).groupBy(F.col(CORRUPT).alias("reason")).count()
    reason_rows = _rows(reasons.orderBy(F.desc("count"), "reason").limit(ROWS_MAX)) if counts["corrupt"] else []
    return {**counts.asDict(), "corrupt_reasons": reason_rows}


def _judgement(moments: Mapping[By, DataFrame], gaps: DataFrame, objective: Objective, step: int) -> Document:
    outcomes = objectives.judged(moments[By(objective.columns)], gaps, objective, step).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    try:
        return {
            "objective": str(objective),
            "shares": _table(objectives.shares(outcomes, objective)),
            "misses": _table(objectives.misses(outcomes, objective, step)),
        }
    finally:
        outcomes.unpersist()


def _table(frame: DataFrame) -> Document:
    """The first rows, and the number of rows left out."""
    rows = _rows(frame.limit(ROWS_MAX + 1))
    left_out = frame.count() - ROWS_MAX if len(rows) > ROWS_MAX else 0
    return {"rows": rows[:ROWS_MAX], "left_out": left_out}


def _rows(frame: DataFrame) -> list[Document]:
    return [row.asDict() for row in frame.collect()]


def moment(at_ms: int) -> str:
    """Format a time in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
