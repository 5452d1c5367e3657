"""Files of settings in Java's `.properties` form: `key = value`, comments, escapes, lines that continue."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANK: Final = " \t\f"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u(?P<hex>[0-9a-fA-F]{4})|(?P<malformed>u)|(?P<other>.))", re.DOTALL)


class Entry(NamedTuple):
    """A value and the number of the line it begins on."""

    value: str
    line: int


def parse_properties(text: str) -> dict[str, Entry]:
    """Values by key; the last of equal keys counts. Raises ValueError for a malformed escape."""
    entries = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        entries[key] = Entry(value, number)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, joined where an odd number of backslashes ends one, with the number of the first."""
    joined: str | None = None
    first = 0
    for number, line in enumerate(_LINE_END.split(text), 1):
        stripped = line.lstrip(_BLANK)
        if joined is None:
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        joined = (joined or "") + stripped
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = None
    if joined is not None:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped `=`, `:` or blank; blanks around one separator are dropped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescaped(key), _unescaped(rest)


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match["malformed"]:
            raise ValueError(f"Malformed \\uxxxx escape in {text!r}: 4 hexadecimal digits must follow.")
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return _ESCAPED.get(match["other"], match["other"])

    return _ESCAPE.sub(replaced, text)
