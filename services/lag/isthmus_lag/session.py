"""A session of Spark: local and small unless told otherwise. Under spark-submit everything is as that was told."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from isthmus_lag.source import LagSource

LOCAL_MASTER: Final = "local[*]"
_JAVA: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    # A report is over before the thorough compiler and the parallel collector have earned what they cost: half of its CPU.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)
_LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": " ".join(_JAVA),
    # Samples are few. Planning anew between stages makes three jobs of one, and every partition more is a task for each stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, 4)),
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_ALWAYS: Final = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
_QUIET_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Of pyspark: they print what is raised as well, at length."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What spark-submit sets for the program that it runs."""


class NoSpark(Exception):
    """Spark cannot start here."""


@contextmanager
def spark_session(name: str, master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session that knows `format("isthmus_lag")`, and ends with the block; raises NoSpark."""
    submitted = _SUBMITTED in os.environ
    if not submitted and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NoSpark("Spark needs Java 17 or later, and there is no java on the path")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for logger in _QUIET_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or LOCAL_MASTER)
    elif master is not None:
        raise NoSpark("spark-submit has a --master of its own: give it there, before the program")
    local = not submitted and (master is None or master.startswith("local"))
    for key, value in {**(_LOCAL if local else {}), **_ALWAYS, **settings}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise NoSpark(f"Spark did not start: {first_line(error)}") from error
    try:
        spark.dataSource.register(LagSource)
        yield spark
    finally:
        spark.stop()


def first_line(error: BaseException) -> str:
    """What an error of Spark comes to: the message of what failed in a Python process, where that was it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [message for line in lines for kind, _, message in [line.partition(": ")] if kind.startswith(_OURS)]
    return next(reversed(ours), lines[0] if lines else type(error).__name__)


_OURS: Final = ("ValueError", "TimeoutError", "isthmus_lag.retained_range.", "isthmus_client.errors.")
"""Kinds of errors that the data source raises, with a message for people."""
