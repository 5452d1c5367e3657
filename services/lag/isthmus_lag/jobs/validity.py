"""How long each sample counts, and when nobody told anything: a copy without samples is not a copy without lag.

A partition's samples come at an interval, taken as the median of what lies between them. A sample counts until the partition is told of
again, and at most for `GAP_FACTOR` intervals: after that nothing is known, and a gap has begun.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import COPIED, COPY, LINK
from isthmus_lag.jobs.percentiles import measured
from isthmus_lag.samples import CORRUPT, SAMPLE_COLUMNS

GAP_FACTOR: Final = 3
INTERVAL_UNKNOWN_MS: Final = 10_000
"""Taken for the interval when no partition was told of twice."""


def usable(rows: DataFrame, from_ms: int | None = None, to_ms: int | None = None) -> DataFrame:
    """The samples of which every column is known, from a time to before another; a sample that was written twice counts once."""
    whole = F.col(CORRUPT).isNull()
    for name in SAMPLE_COLUMNS:
        whole = whole & F.col(name).isNotNull()
    if from_ms is not None:
        whole = whole & (F.col("at_ms") >= from_ms)
    if to_ms is not None:
        whole = whole & (F.col("at_ms") < to_ms)
    return rows.where(whole).select(*SAMPLE_COLUMNS).dropDuplicates([*COPY, "at_ms"])


def told(samples: DataFrame) -> DataFrame:
    """Samples with `next_ms`, when their partition was told of next (empty for the last time), and `interval_ms`."""
    # From the last to the first, for only a frame that grows from its start is computed in one pass.
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


def held(told_samples: DataFrame, to_ms: int) -> DataFrame:
    """With `until_ms`, before which a sample counts."""
    patience = F.col("at_ms") + GAP_FACTOR * F.col("interval_ms")
    return told_samples.withColumn("until_ms", F.least(F.coalesce("next_ms", F.lit(to_ms)), patience, F.lit(to_ms)))


def gaps(told_samples: DataFrame, to_ms: int) -> DataFrame:
    """Stretches in which nobody told of a partition for longer than `GAP_FACTOR` intervals, the longest first.

    `ended` says whether samples came again before `to_ms`. A partition that was deleted, or whose link was, is told of never again as well.
    """
    end = F.coalesce("next_ms", F.lit(to_ms))
    columns = [*LINK, "source_region", "target_region", "topic", "partition"]
    return (
        told_samples.where(end - F.col("at_ms") > GAP_FACTOR * F.col("interval_ms"))
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
