"""`mm2.properties`: accepted, ineffective and refused settings."""

import pytest
from isthmus_mirror.core.settings import SettingsRefused, read_settings

CLUSTERS = "clusters = west, east\nwest.bootstrap.servers = a:1,b:2\neast.bootstrap.servers = c:3\n"
ENABLED = CLUSTERS + "west->east.enabled = true\n"


def test_defaults_are_those_of_mirror_maker() -> None:
    settings = read_settings(ENABLED)
    assert settings.bootstrap == {"west": "a:1,b:2", "east": "c:3"}
    assert [(flow.name, flow.enabled) for flow in settings.flows] == [("west->east", True), ("east->west", False)]
    flow = settings.flows[0]
    assert (flow.refresh_topics_seconds, flow.sync_configs_seconds, flow.checkpoints_seconds) == (600, 600, 60)
    assert (flow.sync_groups_seconds, flow.heartbeats_seconds, flow.offset_lag_max) == (0, 1, 100)
    assert (flow.offset_syncs_at_source, flow.read_committed, flow.naming.identity) == (True, False, False)
    assert settings.warnings == ()


def test_a_flows_own_settings_override_and_lines_may_continue() -> None:
    flow = read_settings(
        ENABLED
        + "topics = every.*\n! a comment\nwest->east.topics : orders, \\\n   pay.*\nemit.heartbeats.enabled=false\n"
        "west.consumer.isolation.level = read_committed\nreplication.policy.class = "
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    ).flows[0]
    assert [name for name in ("orders", "payments", "everything") if flow.takes_topic(name)] == ["orders", "payments"]
    assert (flow.heartbeats_seconds, flow.read_committed, flow.naming.identity) == (0, True, True)


def test_settings_without_effect_are_listed_with_their_line() -> None:
    warnings = read_settings(ENABLED + "tasks.max = 4\nwest->east.sync.topic.acls.enabled = true\ntopic = x\n").warnings
    assert warnings == (
        "line 5: 'tasks.max' is not supported and has no effect",
        "line 6: 'west->east.sync.topic.acls.enabled' is not supported and has no effect",
        "line 7: 'topic' is unknown and has no effect",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'clusters' is missing"),
        ("clusters = west", "line 1: 'clusters' must have two or more distinct names"),
        ("clusters = west, e/st", "line 1: a topic's name cannot contain the alias 'e/st'"),
        ("clusters = west, east\nwest.bootstrap.servers=a:1", "'east.bootstrap.servers' is missing"),
        (CLUSTERS, "no flow is enabled; write for example 'west->east.enabled = true'"),
        (CLUSTERS + "west->east.enabled = yes", "line 4: 'west->east.enabled' must be true or false, not 'yes'"),
        (ENABLED + "topics = [", "line 5: 'topics' has '[', which is not a regular expression"),
        (ENABLED + "offset.lag.max = many", "line 5: 'offset.lag.max' must be an integer of at least 0, not 'many'"),
        (ENABLED + "replication.policy.class = Mine", "line 5: 'replication.policy.class' must be DefaultReplicationPolicy or"),
        (ENABLED + "west.security.protocol = SSL", "line 5: 'west.security.protocol' is SSL; only PLAINTEXT is supported"),
        (
            ENABLED + "exactly.once.source.support = enabled\nconsumer.isolation.level = read_uncommitted",
            "'west->east' writes in transactions (exactly.once.source.support) and cannot read uncommitted records",
        ),
        (ENABLED + "exactly.once.source.support = yes", "must be enabled or disabled or preparing, not 'yes'"),
        (
            ENABLED + "east->west.enabled = true\nreplication.policy.class = IdentityReplicationPolicy",
            "copy the same topics to each other under the same names",
        ),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        read_settings(text)
    assert reason in str(refused.value)


def test_cycles_are_impossible() -> None:
    flow = read_settings(ENABLED).flows[0]
    never = (
        "east.orders", "north.east.orders", "west.heartbeats", "north.west.heartbeats", "east.heartbeats",
        "__consumer_offsets", "mm2-offset-syncs.east.internal", "north.checkpoints.internal", "connect-offsets-internal",
    )  # fmt: skip
    assert [name for name in never if flow.takes_topic(name)] == []
    assert all(flow.takes_topic(name) for name in ("orders", "north.orders", "heartbeats", "north.heartbeats"))
    assert flow.naming.remote("north.orders") == "west.north.orders"
    assert [group for group in ("readers", "console-consumer-7", "__x") if flow.takes_group(group)] == ["readers"]


def test_copies_in_transactions() -> None:
    """By flow, target cluster or for all; opposite flows may then have the same names."""
    text = ENABLED + "east->west.enabled = true\nreplication.policy.class = IdentityReplicationPolicy\n"
    flows = read_settings(text + "exactly.once.source.support = enabled").flows
    assert [(flow.is_transactional, flow.read_committed, flow.transaction_ms) for flow in flows] == [
        (True, True, 100)
    ] * 2
    text = ENABLED + "east.exactly.once.source.support = enabled\ntransaction.boundary.interval.ms = 500\n"
    assert [flow.transaction_ms for flow in read_settings(text).flows] == [500, 0]
