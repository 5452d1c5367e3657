"""RPO: what would have been lost, had the source of a group gone at a moment.

Moments are those of a grid of `step_ms`. At each, a partition is as far behind as the group's copy that has most of it; the group loses the
records of all its partitions, and goes back as long as the partition that is furthest behind.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import COPIED
from isthmus_lag.jobs.percentiles import spread


def on_grid(frame: DataFrame, begin: str, end: str, step_ms: int) -> DataFrame:
    """A row for each moment of the grid from column `begin` to before column `end`, as `moment_ms`."""
    first = F.ceil(F.col(begin) / step_ms) * step_ms
    last = (F.ceil(F.col(end) / step_ms) - 1) * step_ms
    moments = F.when(first <= last, F.sequence(first, last, F.lit(step_ms).cast("long")))
    return frame.withColumn("moment_ms", F.explode(moments))


def losses(held_samples: DataFrame, columns: Sequence[str], step_ms: int) -> DataFrame:
    """`rpo_ms` and `rpo_records` of every group at every moment at which anything is known of it.

    `rpo_ms` is empty when no copy of some partition was ever seen with everything; `partitions` says of how many something is known.
    """
    partition = dict.fromkeys((*columns, *COPIED, "moment_ms"))
    best = (
        on_grid(held_samples, "at_ms", "until_ms", step_ms)
        .groupBy(*partition)
        .agg(
            F.min(F.when(F.col("lag_ms") >= 0, F.col("lag_ms"))).alias("ms"),
            F.min("lag_records").alias("records"),
        )
    )
    never = F.count_if(F.col("ms").isNull()) > 0
    return best.groupBy(*columns, "moment_ms").agg(
        F.count("*").alias("partitions"),
        F.when(~never, F.max("ms")).alias("rpo_ms"),
        F.sum("records").alias("rpo_records"),
    )


def rpo(moments: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Percentiles over the moments, the worst group first; `never` counts those whose `rpo_ms` is not known."""
    found = moments.groupBy(*columns).agg(
        F.count("*").alias("moments"),
        F.count_if(F.col("rpo_ms").isNull()).alias("never"),
        *spread("rpo_ms", "rpo_ms"),
        *spread("rpo_records", "rpo_records"),
    )
    return found.orderBy(F.desc("rpo_ms_p99"), F.desc("rpo_records_p99"), F.desc("never"), *columns)


def series(moments: DataFrame, columns: Sequence[str], bucket_ms: int) -> DataFrame:
    """The worst of each bucket of time, for plots; in order."""
    bucket = (F.floor(F.col("moment_ms") / bucket_ms) * bucket_ms).alias("bucket_ms")
    return (
        moments.groupBy(*columns, bucket)
        .agg(
            F.max("rpo_ms").alias("rpo_ms"),
            F.max("rpo_records").alias("rpo_records"),
            F.count_if(F.col("rpo_ms").isNull()).alias("never"),
        )
        .orderBy(*columns, "bucket_ms")
    )
