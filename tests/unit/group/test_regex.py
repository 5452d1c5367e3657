"""Expressions over topic names: RE2's language and errors, in bounded time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_broker.core.coordinator.regex import InvalidRegex, NamePattern, TooMuchWork

_ATOMS = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "(a|b)",
        "(?:ab)",
        r"\w",
        r"\W",
        r"\d",
        "-",
        "_",
        "[a-b_-]",
        r"\.",
        "(?i:A)",
        "(^)",
        "($)",
        r"(\b)",
        "()",
    ]
)
_REPEATS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
_PATTERNS = st.lists(
    st.lists(st.tuples(_ATOMS, _REPEATS).map("".join), max_size=4).map("".join), min_size=1, max_size=3
).map("|".join)


@given(_PATTERNS, st.lists(st.text("abAx-_.9", max_size=7), max_size=8))
@settings(max_examples=300, deadline=None)
def test_it_matches_what_the_standard_library_matches(pattern: str, names: list[str]) -> None:
    ours, theirs = NamePattern(pattern), re.compile(pattern, re.ASCII)
    for name in names:
        assert ours.matches(name) == bool(theirs.fullmatch(name)), (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("", "", "a"),
        (r"\Qa.b\E+", "a.bb", "axb"),
        (r"\Qa.b", "a.b", "a.b."),
        ("(?i)Orders", "oRDERS", "order"),
        ("(?i:A)b", "ab", "aB"),
        ("(?P<n>a)(?<m>b)", "ab", "a"),
        ("[[:alpha:]]+[[:^digit:]]", "ab-", "ab1"),
        (r"\pL\p{Nd}\PL", "a1-", "a1b"),
        (r"[\d-z]+", "1-z", "y"),
        (r"\x41\x{42}\103", "ABC", "ABD"),
        ("[]a]+", "]a", "b"),
        ("[^]]", "a", "]"),
        ("a{,3}", "a{,3}", "aaa"),
        ("a{", "a{", "a"),
        (r"\Aa\z", "a", "aa"),
        ("(?s:.)(?-s:.)", "ab", "a"),
        ("a|", "", "b"),
    ],
)
def test_syntax(pattern: str, matching: str, other: str) -> None:
    assert NamePattern(pattern).matches(matching)
    assert not NamePattern(pattern).matches(other)


# As RE2J 1.8 says of each.
@pytest.mark.parametrize(
    ("pattern", "description"),
    [
        ("(", "missing closing )"),
        (")", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        (r"\p{Foo}", "invalid character class range"),
        ("*a", "missing argument to repetition operator"),
        ("|*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a++", "invalid nested repetition operator"),
        ("a{1,2}{3}", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a{1001}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
        (r"\8", "invalid escape sequence"),
        (r"\1", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\x4", "invalid escape sequence"),
        ("(?<a", "invalid named capture"),
        ("(?z)", "invalid or unsupported Perl syntax"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P=n)", "invalid or unsupported Perl syntax"),
    ],
)
def test_errors(pattern: str, description: str) -> None:
    with pytest.raises(InvalidRegex) as raised:
        NamePattern(pattern)
    assert raised.value.description == description


@given(st.text(r"ab()[]{}*+?|^$.\-,0123:<>=!PpQEdwsxi"))
@settings(max_examples=400, deadline=None)
def test_any_text_is_an_expression_or_refused(pattern: str) -> None:
    try:
        NamePattern(pattern).matches("ab-1")
    except (InvalidRegex, TooMuchWork):
        return


def test_what_backtracking_would_never_finish_is_quick() -> None:
    assert not NamePattern("(a+)+b").matches("a" * 249)
    assert NamePattern("(a|aa|a)*").matches("a" * 249)


def test_size_and_work_are_bounded() -> None:
    with pytest.raises(InvalidRegex):
        NamePattern("(a{500}){500}")
    with pytest.raises(InvalidRegex):
        NamePattern("(x?a?){900}")
    assert NamePattern("(" * 200 + ")" * 200).matches("")
    hostile = NamePattern("(a?){900}x")
    with pytest.raises(TooMuchWork):
        any(hostile.matches("a" * (number % 249) + str(number)) for number in range(10_000))
