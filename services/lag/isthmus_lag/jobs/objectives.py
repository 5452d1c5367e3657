"""Objectives: bounds on the loss, when they were missed, and the share of the time in which they were met.

A moment is unknown if a partition has no valid sample and the other partitions do not miss the objective anyway. Unknown moments count
neither as met nor as missed.
"""

from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import LINK, TOPIC
from isthmus_lag.jobs.loss import on_grid
from isthmus_lag.jobs.validity import GAP_FACTOR


class Metric(StrEnum):
    """The bounded quantity."""

    MS = "rpo.ms"
    RECORDS = "rpo.records"

    @property
    def column(self) -> str:
        """The column in the losses."""
        return self.replace(".", "_")


class Scope(StrEnum):
    """The groups to which an objective applies."""

    ALL = "all"
    LINK = "link"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Objective:
    """At most `bound`, for each link (or the replicas of each cluster), or for one link or one topic."""

    metric: Metric
    bound: int
    scope: Scope = Scope.ALL
    name: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its groups."""
        return TOPIC if self.scope is Scope.TOPIC else LINK

    def __str__(self) -> str:
        where = "" if self.scope is Scope.ALL else f"{self.scope}={self.name}:"
        return f"{where}{self.metric}={self.bound}"

    @property
    def concerns(self) -> Column:
        """A condition for the rows to which it applies."""
        return F.lit(True) if self.scope is Scope.ALL else F.col(self.scope.value) == self.name


def parse_objective(text: str) -> Objective:
    """Parse `rpo.ms=5000`, `link=NAME:rpo.records=0` or `topic=NAME:rpo.ms=100`; raises ValueError."""
    where, colon, rule = text.rpartition(":")
    metric, equals, bound = rule.partition("=")
    scope, _, name = where.partition("=")
    try:
        if not equals or not bound.isdigit() or (colon and not (name and scope in (Scope.LINK, Scope.TOPIC))):
            raise ValueError(text)
        return Objective(Metric(metric), int(bound), Scope(scope) if colon else Scope.ALL, name)
    except ValueError:
        raise ValueError(f"expected rpo.ms=5000, link=NAME:rpo.records=0 or topic=NAME:..., not '{text}'") from None


def judged(moments: DataFrame, gaps: DataFrame, objective: Objective, step_ms: int) -> DataFrame:
    """Every moment of the objective's groups with `outcome`: met, missed or unknown. `moments` are losses by the objective's columns."""
    columns = [*objective.columns, "moment_ms"]
    gap_starts = gaps.withColumn("unknown_ms", F.col("from_ms") + GAP_FACTOR * F.col("interval_ms"))
    unsampled = (
        on_grid(gap_starts, "unknown_ms", "to_ms", step_ms)
        .select(*columns)
        .distinct()
        .withColumn("unknown", F.lit(True))
    )
    joined = moments.join(unsampled, columns, "full").where(objective.concerns)
    value = F.col(objective.metric.column)
    missed = F.col("partitions").isNotNull() & (F.coalesce(value, F.lit(objective.bound + 1)) > objective.bound)
    is_unknown = F.coalesce("unknown", F.lit(False))
    return joined.select(
        *columns,
        F.when(missed, "missed").when(is_unknown, "unknown").otherwise("met").alias("outcome"),
        "rpo_ms",
        "rpo_records",
    )


def shares(outcomes: DataFrame, objective: Objective) -> DataFrame:
    """Count the moments of each group by outcome, with `met_share` = met / (met + missed), the worst group first."""
    count = {name: F.count_if(F.col("outcome") == name).alias(name) for name in ("met", "missed", "unknown")}
    known = F.col("met") + F.col("missed")
    return (
        outcomes.groupBy(*objective.columns)
        .agg(*count.values())
        .withColumn("met_share", F.when(known > 0, F.col("met") / known))
        .orderBy(F.asc_nulls_last("met_share"), F.desc("missed"), *objective.columns)
    )


def misses(outcomes: DataFrame, objective: Objective, step_ms: int) -> DataFrame:
    """Intervals of consecutive missed moments, the longest first; `to_ms` is exclusive."""
    order = Window.partitionBy(*objective.columns).orderBy("moment_ms")
    missed = outcomes.where(F.col("outcome") == "missed")
    run = F.col("moment_ms") - F.row_number().over(order) * step_ms
    return (
        missed.withColumn("run", run)
        .groupBy(*objective.columns, "run")
        .agg(
            F.min("moment_ms").alias("from_ms"),
            (F.max("moment_ms") + step_ms).alias("to_ms"),
            F.max("rpo_ms").alias("rpo_ms_max"),
            F.max("rpo_records").alias("rpo_records_max"),
        )
        .drop("run")
        .orderBy(F.desc(F.col("to_ms") - F.col("from_ms")), *objective.columns, "from_ms")
    )
