"""Settings as they are written: Java's property files, environment variables, arguments."""

from __future__ import annotations

import pytest
from isthmus_broker.core.config.properties import combined, from_environment, parse_assignments, parse_properties
from isthmus_broker.core.config.values import ConfigRefused


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb:2\nc 3\nd\te", {"a": "1", "b": "2", "c": "3", "d": "e"}),
        ("# comment\n  ! comment \\\na=1", {"a": "1"}),
        ("a = = 1", {"a": "= 1"}),
        ("a   b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=1  ", {"a": "1  "}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=one\\\n# no comment", {"a": "one# no comment"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\u0041\\t\\z", {"a": "A\tz"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\n\n", {}),
    ],
)
def test_property_files(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_a_malformed_escape_is_refused() -> None:
    with pytest.raises(ConfigRefused, match="Malformed"):
        parse_properties("a=\\u00g1")


def test_environment_variables_name_settings_as_in_kafkas_image() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1",
        "KAFKA_MY__UNDERSCORE_KEY": "1",
        "KAFKA_MY___HYPHEN": "2",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "PATH": "/bin",
    }
    assert from_environment(environment) == {
        "advertised.listeners": "PLAINTEXT://a:1",
        "my_underscore.key": "1",
        "my-hyphen": "2",
    }


def test_arguments_win_over_the_environment_and_that_over_the_file() -> None:
    assert combined({"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "2"}, {"c": "3"}) == {"a": "1", "b": "2", "c": "3"}


def test_assignments() -> None:
    assert parse_assignments(["a=b=c", " d =e"]) == {"a": "b=c", "d": "e"}
    with pytest.raises(ConfigRefused, match="Expected KEY=VALUE, but got 'x'"):
        parse_assignments(["x"])
