"""Java's properties, as far as files for people use them: `key = value`, comments, lines that go on. Each value keeps its line's number."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_SEPARATOR: Final = re.compile(r"(?P<key>(?:\\.|[^\s=:\\])+)[ \t\f]*[=: \t\f]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class Entry(NamedTuple):
    """A value and the line it is on."""

    value: str
    line: int


def read_properties(text: str) -> Mapping[str, Entry]:
    """The last of several values for one key counts, as in Java."""
    found: dict[str, Entry] = {}
    for line, content in _logical_lines(text):
        matched = _SEPARATOR.fullmatch(content)
        if matched is not None:
            found[_unescaped(matched["key"])] = Entry(_unescaped(matched["value"]).strip(), line)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    begun, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not parts and (not line or line[0] in "#!"):
            continue
        begun = begun if parts else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            continue
        yield begun, "".join((*parts, line))
        parts = []
    if parts:
        yield begun, "".join(parts)


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        what = found[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _NAMED.get(what, what)

    return _ESCAPE.sub(one, text)
