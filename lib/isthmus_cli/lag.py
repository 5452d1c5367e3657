"""`isthmus lag`: lag reports and their Parquet history, by Spark. `spark-submit` runs the same commands."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from isthmus_cli.output import show_json, show_rows
from isthmus_cli.session import fail, pairs, run

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from pyspark.sql import SparkSession

lag_app = typer.Typer(no_args_is_help=True, help="Replication lag: reports, and its history as Parquet. Runs on Spark.")
_COLUMNS: Final = [
    "kind",
    "link",
    "source_cluster",
    "target_cluster",
    "moments",
    "never",
    "rpo_ms_p50",
    "rpo_ms_p99",
    "rpo_ms_max",
]
_COLUMNS_RECORDS: Final = ["rpo_records_p50", "rpo_records_p99", "rpo_records_max"]

TopicOption = Annotated[str | None, typer.Option("--topic", help="The topic of the samples.")]
MasterOption = Annotated[str | None, typer.Option("--master", help="A Spark cluster; without it Spark runs here.")]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.")]
_AGO = "an ISO 8601 time, or a duration before now such as PT6H"


@lag_app.command()
def report(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help=f"Samples from then on: {_AGO}.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help=f"Samples before then: {_AGO}.")] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective", metavar="RULE", help="rpo.ms=5000, link=NAME:rpo.records=0, topic=NAME:rpo.ms=100."
        ),
    ] = None,
    step_ms: Annotated[
        int | None, typer.Option("--step-ms", min=1, help="Interval between points; by default that of the samples.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every number of the page.")] = None,
    topic: TopicOption = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="DIR", help="Read the output of `lag stream` instead of a topic.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Report lag, potential loss and missed objectives by link, topic, region and copy."""
    _check_installed()
    from isthmus_client.clock import wall_ms
    from isthmus_lag.history import read_history
    from isthmus_lag.jobs.objectives import parse_objective
    from isthmus_lag.report import NothingToReport, ReportOptions, make_report, read_samples

    now_ms = wall_ms()
    try:
        rules = [parse_objective(text) for text in objective or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--objective'") from error
    if history is not None and topic is not None:
        raise typer.BadParameter("a report reads a topic or a history, not both", param_hint="'--history'")
    window = _time(since, now_ms, "--from"), _time(until, now_ms, "--to")
    options = ReportOptions(from_ms=window[0], to_ms=window[1], step_ms=step_ms, objectives=rules)
    name = _topic(bootstrap, topic) if history is None else ""
    with _spark("isthmus lag report", master, conf) as spark:
        try:
            rows = (
                read_samples(spark, bootstrap, name, *window)
                if history is None
                else read_history(spark, history, *window)
            )
            document = make_report(rows, options)
        except NothingToReport as nothing:
            fail(str(nothing))
    _write(document, html, json)
    if output is Output.JSON:
        show_json(document)
    else:
        show_rows(output, [*_COLUMNS, *_COLUMNS_RECORDS], document["rpo"]["link"]["rows"])


@lag_app.command()
def stream(
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Directory of the Parquet files.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    every: Annotated[str, typer.Option("--every", help="How often a batch is written.")] = "10 seconds",
    once: Annotated[bool, typer.Option("--once", help="Write the existing samples and stop.")] = False,
    batch: Annotated[int | None, typer.Option("--max-offsets", min=1, help="The most that one batch reads.")] = None,
    fail_on_data_loss: Annotated[
        bool,
        typer.Option(help="Whether to fail when samples were lost, or the topic was recreated, before they were read."),
    ] = True,
    topic: TopicOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Write samples as Parquet by day and kind, each exactly once, until SIGTERM or Ctrl-C; a restart continues."""
    _check_installed()
    from isthmus_lag.stream import OFFSETS_PER_TRIGGER, StreamOptions, await_end, start_stream

    options = StreamOptions(
        bootstrap=bootstrap,
        topic=_topic(bootstrap, topic),
        directory=to,
        every=None if once else every,
        per_trigger=batch or OFFSETS_PER_TRIGGER,
        fail_on_loss=fail_on_data_loss,
    )
    with _spark("isthmus lag stream", master, conf) as spark:
        stopping = _stopping()
        await_end(start_stream(spark, options), stopping)


def _check_installed() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "matplotlib")):
        fail("Spark is not installed here: pip install 'isthmus[lag]'")


def _topic(bootstrap: str, given: str | None) -> str:
    """Check that the topic exists: Spark takes seconds to fail, with a long error."""
    from isthmus_client.admin.topics import describe
    from isthmus_client.errors import Refused
    from isthmus_model.internal_topics import LAG_TOPIC
    from isthmus_wire.errors import ErrorCode

    name = given or LAG_TOPIC

    async def check_topic(client: "Client") -> bool:
        try:
            await describe(client, [name])
        except Refused as refused:
            if refused.code is not ErrorCode.unknown_topic_or_partition:
                raise
            return False
        return True

    if not run(bootstrap, check_topic):
        fail(f"topic {name} does not exist: linkers write it, and brokers with isthmus.samples.interval.ms")
    return name


def _time(text: str | None, now_ms: int, option: str) -> int | None:
    from isthmus_cli.reset_plan import parse_datetime, parse_duration

    if text is None:
        return None
    try:
        return now_ms - parse_duration(text) if text.startswith("P") else parse_datetime(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected {_AGO}, got '{text}'", param_hint=f"'{option}'") from error


@contextmanager
def _spark(name: str, master: str | None, conf: list[str] | None) -> "Iterator[SparkSession]":
    """A session whose errors are one line."""
    from isthmus_lag.session import NoSpark, first_line, spark_session
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with spark_session(name, master, pairs(conf, "--conf")) as spark:
            yield spark
    except NoSpark as refusal:
        fail(str(refusal))
    except (PySparkException, Py4JError) as error:
        fail(first_line(error))


def _stopping() -> Callable[[], bool]:
    """A function that returns whether SIGTERM or Ctrl-C was received."""
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: received.append(got))
    return lambda: bool(received)


def _write(document: dict[str, Any], html: Path | None, json: Path | None) -> None:
    from json import dumps

    try:
        if json is not None:
            json.write_text(dumps(document, indent=1) + "\n")
        if html is not None:
            from isthmus_lag.page import page

            html.write_text(page(document))
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
