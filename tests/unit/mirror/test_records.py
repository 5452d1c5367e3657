"""Names of internal topics, and the mirror's own records of progress."""

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


def test_names_of_internal_topics() -> None:
    naming = Naming("west", "target")
    assert (naming.offset_syncs_at_source, naming.checkpoints) == (
        "mm2-offset-syncs.target.internal",
        "west.checkpoints.internal",
    )
    assert Naming("west", "target", "_").checkpoints == "west_checkpoints_internal"
    assert Naming("west", "target", "_", separated_internals=False).checkpoints == "west.checkpoints.internal"


def test_progress_records_round_trip() -> None:
    jump = Jump(Mark(7, 2**32 - 1), (Run(10, 7), Run(14, 9)))
    for kind in Kind:
        for topic_id in (None, UUID(int=7)):
            copy = Copy(Place("bücher", 3), topic_id)
            assert decode_key(encode_key(copy, jump.mark, kind)) == (copy, jump.mark, kind)
    assert decode_runs(encode_value(jump)) == jump.runs
    assert decode_key(encode_key(Copy(Place("x", 0), None), jump.mark, Kind.CERTAIN)[:-1]) is None
    assert decode_runs(None) == decode_runs(encode_value(jump)[:-1]) == ()
