"""Objectives: how much may be lost, when it was more, and for which share of the time it was not.

A moment is met or missed by what is known then; one at which nothing is told of some partition, and which is not missed anyway, is unknown:
it counts for neither.
"""

from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import LINK, TOPIC
from isthmus_lag.jobs.loss import on_grid
from isthmus_lag.jobs.validity import GAP_FACTOR


class Metric(StrEnum):
    """What is bounded."""

    MS = "rpo.ms"
    RECORDS = "rpo.records"

    @property
    def column(self) -> str:
        """Its column in the losses."""
        return self.replace(".", "_")


class Scope(StrEnum):
    """Which groups an objective is for."""

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
        """The groups it looks at."""
        return TOPIC if self.scope is Scope.TOPIC else LINK

    def __str__(self) -> str:
        where = "" if self.scope is Scope.ALL else f"{self.scope}={self.name}:"
        return f"{where}{self.metric}={self.bound}"

    @property
    def concerns(self) -> Column:
        """The rows it is for."""
        return F.lit(True) if self.scope is Scope.ALL else F.col(self.scope.value) == self.name


def parse_objective(text: str) -> Objective:
    """From `rpo.ms=5000`, `link=NAME:rpo.records=0` or `topic=NAME:rpo.ms=100`; raises ValueError."""
    where, colon, rule = text.rpartition(":")
    metric, equals, bound = rule.partition("=")
    scope, _, name = where.partition("=")
    try:
        if not equals or not bound.isdigit() or (colon and not (name and scope in (Scope.LINK, Scope.TOPIC))):
            raise ValueError(text)
        return Objective(Metric(metric), int(bound), Scope(scope) if colon else Scope.ALL, name)
    except ValueError:
        raise ValueError(f"wants rpo.ms=5000 or link=NAME:rpo.records=0 or topic=NAME:..., not '{text}'") from None


def judged(moments: DataFrame, gaps: DataFrame, objective: Objective, step_ms: int) -> DataFrame:
    """Every moment of the groups it is for, with `outcome`: met, missed or unknown. `moments` are losses by the objective's columns."""
    columns = [*objective.columns, "moment_ms"]
    silent_from = gaps.withColumn("blind_ms", F.col("from_ms") + GAP_FACTOR * F.col("interval_ms"))
    blind = (
        on_grid(silent_from, "blind_ms", "to_ms", step_ms).select(*columns).distinct().withColumn("blind", F.lit(True))
    )
    found = moments.join(blind, columns, "full").where(objective.concerns)
    value = F.col(objective.metric.column)
    missed = F.col("partitions").isNotNull() & (F.coalesce(value, F.lit(objective.bound + 1)) > objective.bound)
    unknown = F.coalesce("blind", F.lit(False))
    return found.select(
        *columns,
        F.when(missed, "missed").when(unknown, "unknown").otherwise("met").alias("outcome"),
        "rpo_ms",
        "rpo_records",
    )


def shares(outcomes: DataFrame, objective: Objective) -> DataFrame:
    """For each group the moments by outcome, and `met_share` of those that are known, the worst first."""
    count = {name: F.count_if(F.col("outcome") == name).alias(name) for name in ("met", "missed", "unknown")}
    known = F.col("met") + F.col("missed")
    return (
        outcomes.groupBy(*objective.columns)
        .agg(*count.values())
        .withColumn("met_share", F.when(known > 0, F.col("met") / known))
        .orderBy(F.asc_nulls_last("met_share"), F.desc("missed"), *objective.columns)
    )


def misses(outcomes: DataFrame, objective: Objective, step_ms: int) -> DataFrame:
    """The intervals of missed moments that follow one another, the longest first; `to_ms` is where the next moment begins."""
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
