"""Where settings are written: Java's `.properties` text, environment variables, and `KEY=VALUE` arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from isthmus_broker.core.config.values import ConfigRefused

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS = 4
_ESCAPE = re.compile(r"\\(?:u(?P<hex>[0-9a-fA-F]{4})|(?P<malformed>u)|(?P<other>.))", re.DOTALL)

ENVIRONMENT_PREFIX = "KAFKA_"
# Variables of Kafka's own start scripts: they carry the prefix and are no settings.
NO_SETTINGS = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a `.properties` text; the last of equal keys counts."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, joined where an odd number of backslashes ends one."""
    joined: str | None = None
    for line in _LINE_END.split(text):
        stripped = line.lstrip(_BLANK)
        if joined is None and (not stripped or stripped[0] in "#!"):
            continue
        joined = (joined or "") + stripped
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = None
    if joined is not None:
        yield joined


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
            raise ConfigRefused(f"Malformed \\uxxxx escape in {text!r}: {_HEX_DIGITS} hexadecimal digits must follow.")
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return _ESCAPED.get(match["other"], match["other"])

    return _ESCAPE.sub(replaced, text)


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings from variables as Kafka's own container image reads them.

    `KAFKA_` is the prefix; then `_` stands for a dot, `__` for an underscore and `___` for a hyphen.
    """
    settings = {}
    for variable, value in environ.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in NO_SETTINGS:
            dotted = variable[len(ENVIRONMENT_PREFIX) :].lower().replace("_", ".")
            settings[dotted.replace("...", "-").replace("..", "_")] = value
    return settings


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Settings from `KEY=VALUE` arguments."""
    settings = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigRefused(f"Expected KEY=VALUE, but got {assignment!r}.")
        settings[key.strip()] = value
    return settings


def combined(file: Mapping[str, str], environment: Mapping[str, str], arguments: Mapping[str, str]) -> dict[str, str]:
    """Arguments win over the environment, the environment over the file."""
    return {**file, **environment, **arguments}
