"""A Spark session: local and small by default. Under spark-submit, its options apply instead."""

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
    # A report is too short to benefit from the optimizing compiler and the parallel collector, which would take half of its CPU.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)
_LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": " ".join(_JAVA),
    # The data is small. Adaptive execution would split one job into three, and each partition costs a task per stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, 4)),
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_ALWAYS: Final = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
_QUIET_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers of pyspark that print raised errors a second time, at length."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program that it runs."""


class NoSpark(Exception):
    """Spark cannot start here."""


@contextmanager
def spark_session(name: str, master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session with `format("isthmus_lag")` registered, and stop it at the end of the block; raises NoSpark."""
    submitted = _SUBMITTED in os.environ
    if not submitted and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NoSpark("Spark needs Java 17 or later: java is not on the PATH and JAVA_HOME is not set")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for logger in _QUIET_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or LOCAL_MASTER)
    elif master is not None:
        raise NoSpark("under spark-submit, pass --master to spark-submit, before the program")
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
    """The cause of a Spark error in one line: the message of the Python exception, if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [message for line in lines for kind, _, message in [line.partition(": ")] if kind.startswith(_OURS)]
    return next(reversed(ours), lines[0] if lines else type(error).__name__)


_OURS: Final = ("ValueError", "TimeoutError", "isthmus_lag.retained_range.", "isthmus_client.errors.")
"""Errors that the data source raises with a message for the user."""
