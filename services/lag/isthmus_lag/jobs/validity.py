"""Validity of samples, and gaps between them: the lag of a copy without samples is unknown, not 0.

The interval of a partition is the median time between its samples. A sample is valid until the partition's next sample, and at most for
`GAP_FACTOR` intervals: after that the lag is unknown, and a gap has begun.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import COPIED, COPY, LINK
from isthmus_lag.jobs.percentiles import measured
from isthmus_lag.samples import CORRUPT, SAMPLE_COLUMNS

GAP_FACTOR: Final = 3
INTERVAL_UNKNOWN_MS: Final = 10_000
"""Used as the interval if no partition has two samples."""


def usable(rows: DataFrame, from_ms: int | None = None, to_ms: int | None = None) -> DataFrame:
    """Samples of the window with a value in every column; duplicates count once."""
    whole = F.col(CORRUPT).isNull()
    for name in SAMPLE_COLUMNS:
        whole = whole & F.col(name).isNotNull()
    if from_ms is not None:
        whole = whole & (F.col("at_ms") >= from_ms)
    if to_ms is not None:
        whole = whole & (F.col("at_ms") < to_ms)
    return rows.where(whole).select(*SAMPLE_COLUMNS).dropDuplicates([*COPY, "at_ms"])


def with_intervals(samples: DataFrame) -> DataFrame:
    """Add `next_ms`, the time of the partition's next sample (null for the last), and `interval_ms`."""
    # From the last to the first: Spark computes a window frame in one pass only if it grows from its start.
    later = Window.partitionBy(*COPIED).orderBy(F.desc("at_ms")).rangeBetween(Window.unboundedPreceding, -1)
    followed = samples.withColumn("next_ms", F.min("at_ms").over(later))
    moments = followed.where(F.col("next_ms").isNotNull()).select(*COPIED, "at_ms", "next_ms").distinct()
    between = measured("next_ms - at_ms", "0.5")
    own = moments.groupBy(*COPIED).agg(between.alias("own_ms"))
    overall = moments.agg(between.alias("overall_ms"))
    interval = F.coalesce("own_ms", "overall_ms", F.lit(INTERVAL_UNKNOWN_MS))
    return (
        followed.join(own, list(COPIED), "left")
        .crossJoin(F.broadcast(overall))
        .withColumn("interval_ms", interval)
        .drop("own_ms", "overall_ms")
    )


def with_validity(samples: DataFrame, to_ms: int) -> DataFrame:
    """Add `until_ms`, the exclusive end of each sample's validity."""
    expiry = F.col("at_ms") + GAP_FACTOR * F.col("interval_ms")
    return samples.withColumn("until_ms", F.least(F.coalesce("next_ms", F.lit(to_ms)), expiry, F.lit(to_ms)))


def gaps(samples: DataFrame, to_ms: int) -> DataFrame:
    """Times without samples of a partition, longer than `GAP_FACTOR` intervals, the longest first.

    `ended` says whether a later sample exists before `to_ms`. A deleted partition or link ends in a gap as well.
    """
    end = F.coalesce("next_ms", F.lit(to_ms))
    columns = [*LINK, "source_region", "target_region", "topic", "partition"]
    return (
        samples.where(end - F.col("at_ms") > GAP_FACTOR * F.col("interval_ms"))
        .select(
            *columns,
            F.col("at_ms").alias("from_ms"),
            end.alias("to_ms"),
            (end - F.col("at_ms")).alias("silent_ms"),
            "interval_ms",
            F.col("next_ms").isNotNull().alias("ended"),
        )
        .distinct()
        .orderBy(F.desc("silent_ms"), *columns, "from_ms")
    )
