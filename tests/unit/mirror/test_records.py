"""The bytes that MirrorMaker 2 of Apache Kafka 4.3.1 wrote, recorded, and ours; and our own records of progress."""

from uuid import UUID

from isthmus_mirror.core.naming import Naming
from isthmus_mirror.core.offset_map import Run
from isthmus_mirror.core.progress import (
    Copy,
    Jump,
    Kind,
    Mark,
    Place,
    decode_key,
    decode_runs,
    encode_key,
    encode_value,
)
from isthmus_mirror.core.records import Checkpoint, checkpoint_key, checkpoint_value, heartbeat, offset_sync


def test_heartbeats() -> None:
    assert heartbeat("target", "west", 0x01A1F017AEE0) == (
        bytes.fromhex("0006746172676574000477657374"),
        bytes.fromhex("0000000001a1f017aee0"),
    )


def test_offset_syncs() -> None:
    assert offset_sync(Place("orders", 1), 0x65, 0x65) == (
        bytes.fromhex("00066f726465727300000001"),
        bytes.fromhex("00000000000000650000000000000065"),
    )


def test_checkpoints() -> None:
    key = bytes.fromhex("000772656164657273000b776573742e6f726465727300000001")
    assert checkpoint_key("readers", Place("west.orders", 1)) == key
    value = bytes.fromhex("0000000000000000007d00000000000000660000")
    assert checkpoint_value(Checkpoint(0x7D, 0x66, "")) == value


def test_names_of_internal_topics() -> None:
    naming = Naming("west", "target")
    assert (naming.offset_syncs_at_source, naming.checkpoints) == (
        "mm2-offset-syncs.target.internal",
        "west.checkpoints.internal",
    )
    assert Naming("west", "target", "_").checkpoints == "west_checkpoints_internal"
    assert Naming("west", "target", "_", separated_internals=False).checkpoints == "west.checkpoints.internal"


def test_progress_comes_back_as_it_was_written() -> None:
    jump = Jump(Mark(7, 2**32 - 1), (Run(10, 7), Run(14, 9)))
    for kind in Kind:
        for topic_id in (None, UUID(int=7)):
            copy = Copy(Place("bücher", 3), topic_id)
            assert decode_key(encode_key(copy, jump.mark, kind)) == (copy, jump.mark, kind)
    assert decode_runs(encode_value(jump)) == jump.runs
    assert decode_key(encode_key(Copy(Place("x", 0), None), jump.mark, Kind.CERTAIN)[:-1]) is None
    assert decode_runs(None) == decode_runs(encode_value(jump)[:-1]) == ()
