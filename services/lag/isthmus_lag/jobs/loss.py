"""RPO: the loss if the source of a group had failed at a moment.

Moments are on a grid of `step_ms`. A partition's lag is that of the group's most recent copy. The group loses the sum of its partitions'
records, and the time of its partition with the highest lag.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import COPIED
from isthmus_lag.jobs.percentiles import spread


def on_grid(frame: DataFrame, begin: str, end: str, step_ms: int) -> DataFrame:
    """Repeat each row for every moment of the grid from column `begin` to before column `end`, as `moment_ms`."""
    first = F.ceil(F.col(begin) / step_ms) * step_ms
    last = (F.ceil(F.col(end) / step_ms) - 1) * step_ms
    moments = F.when(first <= last, F.sequence(first, last, F.lit(step_ms).cast("long")))
    return frame.withColumn("moment_ms", F.explode(moments))


def losses(valid_samples: DataFrame, columns: Sequence[str], step_ms: int) -> DataFrame:
    """`rpo_ms` and `rpo_records` of every group at every moment with at least one valid sample.

    `rpo_ms` is null if no copy of some partition has ever caught up. `partitions` counts the partitions with a valid sample.
    """
    partition = dict.fromkeys((*columns, *COPIED, "moment_ms"))
    best = (
        on_grid(valid_samples, "at_ms", "until_ms", step_ms)
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
    """Percentiles over the moments, the worst group first; `never` counts the moments with an unknown `rpo_ms`."""
    spreads = moments.groupBy(*columns).agg(
        F.count("*").alias("moments"),
        F.count_if(F.col("rpo_ms").isNull()).alias("never"),
        *spread("rpo_ms", "rpo_ms"),
        *spread("rpo_records", "rpo_records"),
    )
    return spreads.orderBy(F.desc("rpo_ms_p99"), F.desc("rpo_records_p99"), F.desc("never"), *columns)


def series(moments: DataFrame, columns: Sequence[str], bucket_ms: int) -> DataFrame:
    """The worst values of each time bucket, in order of time, for plots."""
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
