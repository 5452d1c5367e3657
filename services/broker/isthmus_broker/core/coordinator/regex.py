"""Regular expressions over the names of topics and transactional ids, in RE2's syntax and in time linear in the name.

Kafka compiles such expressions with RE2/J. Python's `re` backtracks: one hostile expression could block the event loop forever. So this
is RE2 itself, with RE2/J's descriptions of errors. docs/decisions/ (google-re2) lists the remaining differences.
"""

import re
from typing import Final

# An expression that compiles to more instructions is invalid. RE2/J only bounds each repetition.
PROGRAM_SIZE_MAX: Final = 5_000
# Memory of one compiled expression; RE2 keeps the 128 most recent ones.
MEMORY_MAX: Final = 1 << 20
# The limit of instructions times characters for matching a pattern, about half a second at worst; a longer resolution is abandoned.
WORK_MAX: Final = 200_000_000

_RE2J_DESCRIPTIONS: Final = {
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
_LITERALS: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\[^C]", re.DOTALL)


class InvalidRegex(Exception):
    """Not a valid RE2/J expression; `description` gives the reason."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description


class TooMuchWork(Exception):
    """Matching would block the event loop for too long."""


class NamePattern:
    """A compiled expression; raises InvalidRegex with RE2/J's description of the error."""

    def __init__(self, pattern: str) -> None:
        import re2  # 3 MB of memory, only on brokers with such subscriptions

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY_MAX
        if "\\C" in _LITERALS.sub("", pattern):  # a single byte, which RE2/J does not have
            raise InvalidRegex("invalid escape sequence")
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise InvalidRegex(_description(error.args[0].decode())) from None
        if self._compiled.programsize > PROGRAM_SIZE_MAX:
            raise InvalidRegex("expression too large")
        self._work = 0

    def matches(self, name: str) -> bool:
        """Whether the whole name matches; raises TooMuchWork."""
        self._work += self._compiled.programsize * (len(name) + 1)
        if self._work > WORK_MAX:
            raise TooMuchWork
        return self._compiled.fullmatch(name) is not None


def _description(error: str) -> str:
    """RE2/J's description of RE2's error, which ends with the invalid part of the expression."""
    kind = error if error in _RE2J_DESCRIPTIONS else error.partition(": ")[0]
    return _RE2J_DESCRIPTIONS.get(kind, kind)
