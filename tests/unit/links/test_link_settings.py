"""Settings of links, and the messages that refuse invalid ones."""

import pytest
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.links.settings import LINK_CONFIGS, altered, servers_of, values_of
from isthmus_model.filters import FILTERS_MAX

SERVERS = {"bootstrap.servers": "a:9092,b:9093"}
FILTERS = '{"topicFilters":[{"name":"orders","patternType":"PREFIXED","filterType":"INCLUDE"}]}'


def test_a_link_needs_its_sources_servers_and_nothing_else() -> None:
    assert servers_of(altered({}, SERVERS.items())) == "a:9092,b:9093"
    with pytest.raises(ConfigRefused, match=r'Missing required configuration "bootstrap\.servers"'):
        altered({}, [])


def test_defaults_are_the_references() -> None:
    told = {name: definition.default_text for name, definition in LINK_CONFIGS.items()}
    assert told["consumer.offset.sync.ms"] == "30000"
    assert told["availability.check.ms"] == "60000"
    assert told["availability.check.consecutive.failure.threshold"] == "5"
    assert told["cluster.link.retry.timeout.ms"] == "300000"
    assert told["topic.config.sync.ms"] == "5000"
    assert told["mirror.start.offset.spec"] == "earliest"
    assert told["cluster.link.prefix"] is None


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("bootstrap.servers", "", "must name brokers of the source"),
        ("bootstrap.servers", "a", "must name brokers of the source"),
        ("bootstrap.servers", "PLAINTEXT://a:9092", "must name brokers of the source"),
        ("link.mode", "SOURCE", "link.mode is set to SOURCE, which links do not support in this release."),
        ("link.mode", "UPSIDE_DOWN", "String must be one of: DESTINATION"),
        ("connection.mode", "INBOUND", "do not support in this release"),
        ("security.protocol", "SASL_SSL", "do not support in this release"),
        ("sasl.jaas.config", "secret", "sasl.jaas.config is a setting which links do not support in this release."),
        ("acl.sync.enable", "true", "acl.sync.enable is a setting which links do not support in this release."),
        ("acl.sync.enabled", "true", "Unknown link config name: acl.sync.enabled"),
        ("cluster.link.prefix", "thirteen.long", "at most 12 characters"),
        ("cluster.link.prefix", "a/b", "at most 12 characters"),
        ("consumer.offset.sync.ms", "999", "Value must be at least 1000"),
        ("topic.config.sync.include", "min.insync.replicas", "String must be one of"),
        ("mirror.start.offset.spec", "yesterday", "earliest, latest, or a time"),
        ("consumer.offset.group.filters", "{", "it must be JSON like"),
        ("consumer.offset.group.filters", FILTERS, "it must be JSON like"),
        ("consumer.offset.group.filters", '{"groupFilters":[{"name":"a"}]}', "it must be JSON like"),
        ("consumer.offset.group.filters", "[" * 20_000, "it must be JSON like"),
        ("bootstrap.servers", "a:1," * 10_000, "longer than 32767 characters"),
    ],
)
def test_what_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        altered(SERVERS, [(name, value)])
    assert why in str(refusal.value)


def test_there_is_a_most_of_filters() -> None:
    one = '{"name":"g","patternType":"LITERAL","filterType":"INCLUDE"}'
    with pytest.raises(ConfigRefused, match="more than 500 filters"):
        altered(
            SERVERS, [("consumer.offset.group.filters", f'{{"groupFilters":[{",".join([one] * (FILTERS_MAX + 1))}]}}')]
        )


def test_filters_are_forgotten_when_mirrors_are_not_made_by_themselves_any_more() -> None:
    on = altered(
        SERVERS, [("auto.create.mirror.topics.enable", "true"), ("auto.create.mirror.topics.filters", FILTERS)]
    )
    assert on["auto.create.mirror.topics.filters"] == FILTERS
    off = altered(on, [("auto.create.mirror.topics.enable", "false")])
    assert "auto.create.mirror.topics.filters" not in off


def test_a_null_brings_back_the_default_and_an_empty_list_is_no_default() -> None:
    paused = altered(SERVERS, [("cluster.link.paused", "true"), ("topic.config.sync.include", "")])
    assert values_of(paused)["topic.config.sync.include"] == ()
    assert altered(paused, [("cluster.link.paused", None), ("topic.config.sync.include", None)]) == SERVERS


def test_values_have_one_spelling() -> None:
    given = [
        ("bootstrap.servers", " a:1 , b:2"),
        ("cluster.link.paused", " TRUE "),
        ("consumer.offset.sync.ms", "+2000"),
    ]
    assert altered({}, given) == {
        "bootstrap.servers": "a:1,b:2",
        "cluster.link.paused": "true",
        "consumer.offset.sync.ms": "2000",
    }
