"""One small session of Spark for all tests of the jobs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from isthmus_lag.samples import SCHEMA
from isthmus_lag.session import spark_session
from pyspark.sql import DataFrame, SparkSession

Frame = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "512m"}
    with spark_session("isthmus tests", "local[1]", settings) as session:
        yield session


def row(at_ms: int, **told: Any) -> dict[str, Any]:
    """A row of the data source: partition 0 of topic t by link l, with everything."""
    usual = {
        "version": 1,
        "kind": "link",
        "link": "l",
        "source_cluster": "far",
        "target_cluster": "near",
        "source_region": "asia",
        "target_region": "europe",
        "source_topic": "t",
        "topic": "t",
        "partition": 0,
        "target_broker": -1,
        "source_end": 100,
        "target_end": 100 - told.get("lag_records", 0),
        "lag_records": 0,
        "lag_ms": 0,
        "at_ms": at_ms,
        "_corrupt": None,
        "kafka_partition": 0,
        "kafka_offset": at_ms,
        "kafka_timestamp": None,
    }
    return usual | told


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    def made(*rows: dict[str, Any]) -> DataFrame:
        return spark.createDataFrame([tuple(one[name] for name in SCHEMA.names) for one in rows], SCHEMA)

    return made
