"""Java's property files."""

from __future__ import annotations

import pytest
from isthmus_model.properties import Entry, parse_properties


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
    assert {key: entry.value for key, entry in parse_properties(text).items()} == settings


def test_a_malformed_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="Malformed"):
        parse_properties("a=\\u00g1")


def test_an_entry_has_the_line_it_begins_on() -> None:
    assert parse_properties("# comment\na = 1,\\\n  2\nb = 3\n") == {"a": Entry("1,2", 2), "b": Entry("3", 4)}
