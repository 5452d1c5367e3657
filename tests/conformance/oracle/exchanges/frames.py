"""Malformed frames: unknown keys and versions, wrong lengths, truncated and false bodies; the connection responds or closes."""

import struct

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk

GROUP = Group({"socket.request.max.bytes": "100000"})
_CLIENT = b"\0\1x"


def _frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _header(key: int, version: int, client: bytes = _CLIENT, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhi", key, version, 3) + client + (b"\0" if flexible else b"")


@GROUP.exchange
def unknown_keys(talk: Talk) -> None:
    for key in (-1, 4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 93, 999, 32767):
        talk.raw(f"key {key}", _frame(_header(key, 0)))


@GROUP.exchange
def versions_out_of_range(talk: Talk) -> None:
    for key, (lowest, highest) in KAFKA_VERSIONS.items():
        if key != ApiKey.API_VERSIONS:
            for version in (lowest - 1, highest + 1, -1):
                talk.raw(f"{key.name.lower()} version {version}", _frame(_header(key, version)))


@GROUP.exchange
def frame_lengths(talk: Talk) -> None:
    for length in (0, -1, -(2**31), 100_001, 2**31 - 1):
        talk.raw(f"length {length}", struct.pack(">i", length))


@GROUP.exchange
def truncated_frames(talk: Talk) -> None:
    whole = _frame(_header(ApiKey.METADATA, 9, flexible=True) + b"\0\1\0\0\0")
    for size in range(len(whole) + 1):
        talk.raw(f"first {size} bytes", whole[:size], end=True)


@GROUP.exchange
def short_frames(talk: Talk) -> None:
    """The length is that of what comes, which is too little for a header."""
    header = _header(ApiKey.METADATA, 1)
    for size in range(1, len(header)):
        talk.raw(f"{size} bytes of a header", _frame(header[:size]))


@GROUP.exchange
def short_bodies(talk: Talk) -> None:
    for key, (_, highest) in KAFKA_VERSIONS.items():
        flexible = key != ApiKey.OFFSET_DELETE
        talk.raw(f"{key.name.lower()} without a body", _frame(_header(key, highest, flexible=flexible)))


@GROUP.exchange
def client_ids(talk: Talk) -> None:
    for label, client in (
        ("null", b"\xff\xff"),
        ("empty", b"\0\0"),
        ("length -2", b"\xff\xfe"),
        ("longer than the frame", b"\x7f\xffx"),
        ("not UTF-8", b"\0\2\xff\xfe"),
    ):
        talk.raw(f"client id {label}", _frame(_header(ApiKey.LIST_GROUPS, 0, client)))


@GROUP.exchange
def lying_counts(talk: Talk) -> None:
    for count in (-2, -1, 0, 1, 1000, 2**31 - 1, -(2**31)):
        body = struct.pack(">i", count)
        talk.raw(f"metadata of {count} topics", _frame(_header(ApiKey.METADATA, 1) + body))
        talk.raw(f"describe {count} groups", _frame(_header(ApiKey.DESCRIBE_GROUPS, 0) + body))
    for varint in (
        b"\0",
        b"\1",
        b"\2",
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\xff\xff\xff\x01",
    ):
        talk.raw(
            f"describe {varint.hex()} groups",
            _frame(_header(ApiKey.DESCRIBE_GROUPS, 5, flexible=True) + varint + b"\0\0"),
        )


@GROUP.exchange
def bytes_after_the_request(talk: Talk) -> None:
    talk.raw("list groups and more", _frame(_header(ApiKey.LIST_GROUPS, 0) + b"extra"))
    talk.raw("list groups v5 and more", _frame(_header(ApiKey.LIST_GROUPS, 5, flexible=True) + b"\1\1\0" + b"extra"))


@GROUP.exchange
def tagged_fields(talk: Talk) -> None:
    """Unknown tags are skipped, in the header and in the body; malformed tags are not."""
    body = b"\1\1"
    for label, header_tags, body_tags in (
        ("unknown in header", b"\1\x63\2hi", b"\0"),
        ("unknown in body", b"\0", b"\1\x63\2hi"),
        ("longer than the frame", b"\0", b"\1\x63\x7f"),
        ("the same twice", b"\0", b"\2\x63\1a\x63\1b"),
        ("out of order", b"\0", b"\2\x63\1a\x62\1b"),
        ("more than there are", b"\0", b"\5\x63\1a"),
    ):
        talk.raw(f"tag {label}", _frame(_header(ApiKey.LIST_GROUPS, 5) + header_tags + body + body_tags))
