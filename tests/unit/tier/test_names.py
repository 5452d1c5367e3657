"""The names of objects."""

from dataclasses import replace

import pytest
from isthmus_tier.core.names import LOG, MANIFEST, object_name, parse_name

from tests.unit.tier.segments import PLACE, segment_of

CLUSTER = "d2VzdC1vZi1tYW55LXdlcw"
NAME = f"v1/{CLUSTER}/topicA-AQIDBAUGBwgREhMUFRYXGA/3/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAQ.log"


def test_a_name_has_the_identity_of_the_segment() -> None:
    name = object_name(CLUSTER, segment_of(1, 42, 99), LOG)
    parsed = parse_name(name)
    assert name == NAME
    assert parsed is not None
    assert (parsed.cluster_id, parsed.place, parsed.start_offset, parsed.segment.int, parsed.kind) == (
        CLUSTER, PLACE, 42, 1, LOG,
    )  # fmt: skip


def test_a_topic_may_have_the_signs_that_ids_have() -> None:
    segment = replace(segment_of(1, 0, 9), place=PLACE._replace(topic="a-b_c.d"))
    parsed = parse_name(object_name(CLUSTER, segment, MANIFEST))
    assert parsed is not None
    assert parsed.place == segment.place


@pytest.mark.parametrize(
    "name",
    [
        "",
        "v1/x",
        NAME.replace("v1", "v2"),
        NAME.replace(".log", ".other"),
        NAME.replace("/3/", "/03/"),
        NAME.replace("/3/", "/x/"),
        NAME.replace("-AAAA", "-AA"),
        NAME.replace("00000000000000000042", "42"),
        NAME + "/more",
    ],
)
def test_other_objects_have_no_such_names(name: str) -> None:
    assert parse_name(name) is None
