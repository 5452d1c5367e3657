"""Group offsets: exact, never backwards, never before the beginning or past the end; configs of a copy."""

import re

from isthmus_mirror.core.group_offsets import Committed, Translation, offsets_to_write, translated
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.settings import DEFAULT_CONFIGS_EXCLUDE
from isthmus_mirror.core.topic_configs import config_changes

ORDERS = Place("west.orders", 0)


def test_offsets_are_translated_exactly_and_never_past_the_end() -> None:
    known = OffsetMap([Run(100, 0), Run(120, 10)], 20)
    downstream = [translated(Committed(up, None), known).downstream for up in (0, 100, 105, 110, 119, 121, 130, 500)]
    assert downstream == [0, 0, 5, 10, 10, 11, 20, 20]
    assert translated(Committed(105, "note"), known) == Translation(105, 5, "note")


def test_commits_only_move_forward_within_the_copy() -> None:
    wanted = {ORDERS: Translation(105, 5, "")}
    assert offsets_to_write(wanted, {}, {ORDERS: 0}) == wanted
    assert offsets_to_write(wanted, {ORDERS: 4}, {ORDERS: 0}) == wanted
    assert offsets_to_write(wanted, {ORDERS: 5}, {ORDERS: 0}) == {}
    assert offsets_to_write(wanted, {}, {}) == {}
    assert offsets_to_write(wanted, {}, {ORDERS: 8}) == {ORDERS: Translation(105, 8, "")}


def test_configs_follow_except_excluded_and_fixed_ones() -> None:
    exclude = re.compile("|".join(part.strip() for part in DEFAULT_CONFIGS_EXCLUDE.split(",")))
    source = {"retention.ms": "7", "min.insync.replicas": "2", "compression.type": "gzip", "isthmus.x": "1"}
    target = {"cleanup.policy": "compact", "min.insync.replicas": "1", "compression.type": "producer"}
    assert config_changes(source, target, exclude) == {
        "cleanup.policy": None, "message.timestamp.type": "CreateTime", "retention.ms": "7",
    }  # fmt: skip
