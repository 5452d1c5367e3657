"""Decisions about whole links: settings, filters, source topics, groups, configs, epochs."""

from uuid import UUID

import pytest
from isthmus_broker.core.links.settings import LINK_CONFIGS
from isthmus_linker.core.epochs import epoch_floor
from isthmus_linker.core.group_offsets import Extent, Position, is_drained, offsets_to_write
from isthmus_linker.core.limits import FETCH_BYTES_MAX, PARTITION_BYTES
from isthmus_linker.core.partition import Failure
from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.core.source_topic import SourceTopic, SourceWatch, Verdict
from isthmus_linker.core.topic_configs import config_changes
from isthmus_model.clocks import MonotonicMs
from isthmus_model.filters import GROUP_FILTERS, TOPIC_FILTERS, parse_filters
from isthmus_wire.extensions.mirrors import MirrorError

ONE, OTHER = UUID(int=1), UUID(int=2)
DEFAULTS = {
    name: definition.default_text or "" for name, definition in LINK_CONFIGS.items() if name != "bootstrap.servers"
} | {"bootstrap.servers": "a:1"}


def test_the_destinations_defaults_are_understood() -> None:
    settings = LinkSettings.of(DEFAULTS, frozenset())
    assert (settings.bootstrap, settings.start, settings.paused, settings.sync_offsets) == (
        "a:1",
        "earliest",
        False,
        False,
    )
    assert (settings.retry_timeout_ms, settings.availability_check_ms, settings.availability_failures) == (
        300_000,
        60_000,
        5,
    )
    assert (settings.fetch_bytes, settings.partition_bytes) == (FETCH_BYTES_MAX, PARTITION_BYTES)
    assert "retention.ms" in settings.configs
    assert not settings.groups.includes("any")


def test_explicit_settings_override_defaults() -> None:
    told = {
        **DEFAULTS,
        "replica.fetch.max.bytes": "1000",
        "topic.config.sync.include": "",
        "cluster.link.paused": "true",
    }
    settings = LinkSettings.of(told, frozenset({"replica.fetch.max.bytes"}))
    assert (settings.partition_bytes, settings.configs, settings.paused) == (1000, (), True)


FILTERS = """{"groupFilters":[
    {"name":"pay","patternType":"PREFIXED","filterType":"INCLUDE"},
    {"name":"orders","patternType":"LITERAL","filterType":"INCLUDE"},
    {"name":"pay-test","patternType":"PREFIXED","filterType":"EXCLUDE"}]}"""


@pytest.mark.parametrize(
    ("name", "passes"),
    [("payments", True), ("orders", True), ("orders2", False), ("pay-test-1", False), ("other", False)],
)
def test_filters(name: str, passes: bool) -> None:
    assert parse_filters(FILTERS, GROUP_FILTERS).includes(name) is passes


def test_a_star_means_all_names_and_malformed_filters_are_refused() -> None:
    star = '{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}'
    assert parse_filters(star, TOPIC_FILTERS).includes("anything")
    assert not parse_filters("", GROUP_FILTERS).includes("anything")
    for malformed in ("[", "[]", "{}", '{"groupFilters":3}', '{"groupFilters":[3]}', star):
        with pytest.raises(ValueError, match="must be JSON like"):
            parse_filters(malformed, GROUP_FILTERS)


def test_a_lasting_mismatch_of_the_source_topic_fails_the_mirror_topic() -> None:
    watch, mirrored = SourceWatch(), SourceTopic(ONE, 4)
    failure = Failure(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, "the source no longer has the topic")
    assert watch.check(None, mirrored, MonotonicMs(0), 1_000) == Verdict()
    assert watch.check(mirrored, mirrored, MonotonicMs(900), 1_000) == Verdict()
    assert watch.check(None, mirrored, MonotonicMs(1_000), 1_000) == Verdict()
    assert watch.check(None, mirrored, MonotonicMs(2_000), 1_000) == Verdict(failure)


@pytest.mark.parametrize(
    ("current", "error"),
    [
        (SourceTopic(OTHER, 4), MirrorError.SOURCE_TOPIC_ID_CHANGED),
        (SourceTopic(ONE, 3), MirrorError.SOURCE_PARTITIONS_DECREASED),
        (None, MirrorError.SOURCE_TOPIC_MAY_BE_DELETED),
    ],
)
def test_mismatches_have_error_codes(current: SourceTopic | None, error: MirrorError) -> None:
    verdict = SourceWatch().check(current, SourceTopic(ONE, 4), MonotonicMs(0), 0)
    assert verdict.failure is not None
    assert verdict.failure.error is error


def test_added_partitions_are_followed_and_missing_ids_ignored() -> None:
    assert SourceWatch().check(SourceTopic(ONE, 6), SourceTopic(ONE, 4), MonotonicMs(0), 0) == Verdict(grow_to=6)
    assert SourceWatch().check(SourceTopic(None, 4), SourceTopic(ONE, 4), MonotonicMs(0), 0) == Verdict()


def test_offsets_are_clamped_and_never_decrease() -> None:
    source = {("t", index): Position(offset, 7, "note") for index, offset in enumerate((50, 150, 5, 50, 60, 50))}
    destination = {("t", 3): Position(50, 7, None), ("t", 4): Position(80, 7, None)}
    extents = {("t", index): Extent(10, 100) for index in range(5)}
    assert offsets_to_write(source, destination, extents) == {
        ("t", 0): Position(50, 7, "note"),
        ("t", 1): Position(100, -1, "note"),
        ("t", 2): Position(10, -1, "note"),
    }


@pytest.mark.parametrize(
    ("source", "copied_to", "drained"),
    [
        (Extent(0, 10), 10, True),
        (Extent(0, 10), 9, False),
        (Extent(10, 10), 7, True),
        (Extent(10, 10), 0, False),
        (Extent(0, 0), 0, True),
    ],
)
def test_when_nothing_is_left_to_copy(source: Extent, copied_to: int, drained: bool) -> None:
    assert is_drained(source, copied_to) is drained


def test_included_configs_follow_the_source() -> None:
    source = {"cleanup.policy": "compact", "retention.ms": "1", "segment.ms": "5", "min.insync.replicas": "2"}
    destination = {"retention.ms": "2", "compression.type": "zstd", "max.message.bytes": "9"}
    assert config_changes(source, destination, ("retention.ms", "compression.type", "min.insync.replicas")) == {
        "cleanup.policy": "compact",
        "compression.type": None,
        "max.message.bytes": None,
        "retention.ms": "1",
    }


@pytest.mark.parametrize(("source", "own", "floor"), [(0, 0, 10), (5, 8, None), (5, 7, 15), (5, 100, None)])
def test_epochs_stay_above_the_sources(source: int, own: int, floor: int | None) -> None:
    assert epoch_floor(source, own) == floor
