"""`isthmus tier`: what is in the object store of tiered storage. No broker is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import Output, OutputOption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from isthmus_tier.edge.encryption import KeyRing
    from isthmus_tier.edge.inventory import StoredSegment
    from isthmus_tier.edge.store import ObjectStore

tier_app = typer.Typer(help="The object store of tiered storage: list and verify what is in it.", no_args_is_help=True)

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="file:///DIR, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.")
]
EndpointOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Another server with the API of the store than Amazon's or Google's.")
]
TopicOption = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")]
_COLUMNS: Final = (
    *(
        "topic",
        "topic_id",
        "partition",
        "segments",
        "first_offset",
        "last_segment_offset",
        "stored_bytes",
        "incomplete",
    ),
)
_SEGMENT_COLUMNS: Final = ("topic", "partition", "start_offset", "segment", "stored_bytes", "complete")


@tier_app.command("ls")
def ls_command(
    store: StoreArgument,
    endpoint: EndpointOption = None,
    topic: TopicOption = None,
    segments: Annotated[bool, typer.Option("--segments", help="A line for each segment.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the partitions in a store, or their segments.

    A segment that is incomplete is being copied or deleted, or an interruption has left it.
    """
    from isthmus_model.uuid_text import uuid_text

    from isthmus_cli.output import show_rows

    listed = _segments(_open(store, endpoint), topic or ())
    if segments:
        rows = [
            {
                "cluster": one.name.cluster_id,
                "topic": one.name.place.topic,
                "topic_id": uuid_text(one.name.place.topic_id),
                "partition": one.name.place.partition,
                "start_offset": one.name.start_offset,
                "segment": uuid_text(one.name.segment),
                "stored_bytes": one.stored,
                "complete": one.is_whole,
            }
            for one in listed
        ]
        show_rows(output, _SEGMENT_COLUMNS, rows)
    else:
        show_rows(output, _COLUMNS, _by_partition(listed))


@tier_app.command("verify")
def verify_command(
    store: StoreArgument,
    endpoint: EndpointOption = None,
    topic: TopicOption = None,
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The keys with which objects are encrypted.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read every object, check every byte, and list the segments with errors. The status is 1 if there are any."""
    from isthmus_tier.edge.inventory import verify

    from isthmus_cli.output import show_json, show_table

    ring = _keys(keys)
    opened = _open(store, endpoint)
    listed = _segments(opened, topic or ())
    errors = [
        {
            "topic": one.name.place.topic,
            "partition": one.name.place.partition,
            "start_offset": one.name.start_offset,
            "error": error,
        }
        for one in listed
        if (error := verify(opened, one, ring)) is not None
    ]
    if output is Output.JSON:
        show_json({"segments": len(listed), "stored_bytes": sum(one.stored for one in listed), "errors": errors})
    else:
        if errors:
            show_table(("topic", "partition", "start_offset", "error"), errors)
        print(f"{len(listed)} segments, {sum(one.stored for one in listed)} bytes: {len(errors)} with errors")
    if errors:
        sys.exit(1)


def _by_partition(segments: Iterable[StoredSegment]) -> list[dict[str, Any]]:
    from isthmus_model.uuid_text import uuid_text

    rows: dict[object, dict[str, Any]] = {}
    for one in segments:
        place = one.name.place
        row = rows.setdefault(
            (one.name.cluster_id, place),
            {
                "cluster": one.name.cluster_id,
                "topic": place.topic,
                "topic_id": uuid_text(place.topic_id),
                "partition": place.partition,
                "segments": 0,
                "first_offset": one.name.start_offset,
                "last_segment_offset": one.name.start_offset,
                "stored_bytes": 0,
                "incomplete": 0,
            },
        )
        row["segments"] += 1
        row["last_segment_offset"] = one.name.start_offset
        row["stored_bytes"] += one.stored
        row["incomplete"] += not one.is_whole
    return list(rows.values())


def _open(url: str, endpoint: str | None) -> ObjectStore:
    from isthmus_tier.edge.open_store import UnknownStore, open_store
    from isthmus_tier.edge.store import StoreError

    try:
        return open_store(url, endpoint)
    except (UnknownStore, StoreError) as error:
        sys.exit(f"isthmus tier: {error}")


def _segments(store: ObjectStore, topics: Iterable[str]) -> list[StoredSegment]:
    from isthmus_tier.edge.inventory import list_segments
    from isthmus_tier.edge.store import StoreError

    try:
        return list_segments(store, topics)
    except StoreError as error:
        sys.exit(f"isthmus tier: {error}")


def _keys(path: Path | None) -> KeyRing | None:
    from isthmus_tier.edge.encryption import BadKeys, read_keys

    if path is None:
        return None
    try:
        return read_keys(path)
    except BadKeys as error:
        sys.exit(f"isthmus tier: {error}")
