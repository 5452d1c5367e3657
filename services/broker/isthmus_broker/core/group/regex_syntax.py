"""RE2's syntax, as far as it can tell topic names apart, parsed to a tree. Errors carry the descriptions that RE2J gives."""

from dataclasses import dataclass
from typing import Final

EVERY: Final = frozenset(chr(code) for code in range(128))
_DIGITS: Final = frozenset("0123456789")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS: Final = _LOWER | _UPPER
_WORD: Final = _LETTERS | _DIGITS | {"_"}
_SPACE: Final = frozenset("\t\n\f\r ")
_NEWLINE: Final = frozenset("\n")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_REPEAT_MAX: Final = 1000
# Parentheses within each other; RE2J has the same bound.
_NESTING_MAX: Final = 200

_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": EVERY,
    "blank": frozenset("\t "),
    "cntrl": frozenset(chr(code) for code in (*range(32), 127)),
    "digit": _DIGITS,
    "graph": frozenset(chr(code) for code in range(33, 127)),
    "lower": _LOWER,
    "print": frozenset(chr(code) for code in range(32, 127)),
    "punct": _PUNCTUATION,
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
# Unicode's general categories and scripts, cut down to ASCII.
_UNICODE: Final = {
    "Any": EVERY,
    "C": _POSIX["cntrl"],
    "Cc": _POSIX["cntrl"],
    "L": _LETTERS,
    "Latin": _LETTERS,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION - frozenset("$+<=>^`|~"),
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "S": frozenset("$+<=>^`|~"),
    "Z": frozenset(" "),
    "Zs": frozenset(" "),
}
_OCTAL: Final = frozenset("01234567")
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidRegex(Exception):
    """Not an expression of RE2; `description` says why."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of these."""

    branches: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; `most` None is any number."""

    part: "Node"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start or the end of the name."""

    at_start: bool


@dataclass(frozen=True, slots=True)
class WordBoundary:
    """Between a word character and another, or not."""

    negated: bool


Chars = frozenset[str]
Node = Sequence | Alternatives | Repeat | Anchor | WordBoundary | Chars


@dataclass(frozen=True, slots=True)
class _Flags:
    fold_case: bool = False
    dot_all: bool = False


def parse(pattern: str) -> Node:
    """The tree of an expression."""
    parser = _Parser(pattern)
    node = parser.alternatives(0)
    if not parser.done:
        raise InvalidRegex("regexp/syntax: internal error")  # RE2J's words for a parenthesis that closes nothing
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = _Flags()

    @property
    def done(self) -> bool:
        return self._at >= len(self._text)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        char = self._text[self._at]
        self._at += 1
        return char

    def alternatives(self, depth: int) -> Node:
        """Up to the parenthesis that closes, or the end. Flags set inside end with it."""
        if depth > _NESTING_MAX:
            raise InvalidRegex("expression nests too deeply")
        flags = self._flags
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        self._flags = flags
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self.done and not self._peek("|") and not self._peek(")"):
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                literal = self._text[self._at :] if end < 0 else self._text[self._at : end]
                self._at = len(self._text) if end < 0 else end + 2
                parts += [self._literal(char) for char in literal]
            else:
                parts.append(self._atom(depth))
            if parts:
                parts[-1] = self._repeated(parts[-1])
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = self._repetition()
        if bounds is None:
            return part
        self._take("?")
        if self._repetition() is not None:
            raise InvalidRegex("invalid nested repetition operator")
        return Repeat(part, *bounds)

    def _repetition(self) -> tuple[int, int | None] | None:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._peek("{"):
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(least) or (most and not _is_number(most)):
            return None  # not a repetition but a brace
        self._at = end + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > _REPEAT_MAX or (high is not None and (high > _REPEAT_MAX or high < low)):
            raise InvalidRegex("invalid repeat count")
        return low, high

    def _atom(self, depth: int) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return self._bracket()
            case ".":
                return EVERY if self._flags.dot_all else EVERY - _NEWLINE
            case "^":
                return Anchor(at_start=True)
            case "$":
                return Anchor(at_start=False)
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidRegex("missing argument to repetition operator")
            case _:
                return self._literal(char)

    def _literal(self, char: str) -> Chars:
        return self._folded(frozenset(char))

    def _folded(self, chars: Chars) -> Chars:
        if not self._flags.fold_case:
            return chars
        return chars | {char.lower() for char in chars} | {char.upper() for char in chars}

    # Groups.

    def _group(self, depth: int) -> Node:
        outer = self._flags
        if self._take("?") and self._group_start():
            return Sequence(())
        node = self.alternatives(depth + 1)
        if not self._take(")"):
            raise InvalidRegex("missing closing )")
        self._flags = outer
        return node

    def _group_start(self) -> bool:
        """What stands between `(?` and the group's body; True when flags alone were set and there is no body."""
        if self._take("P<") or (self._peek("<") and not self._peek("<=") and not self._peek("<!") and self._take("<")):
            end = self._text.find(">", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            if not name or not set(name) <= _WORD:
                raise InvalidRegex("invalid named capture")
            self._at = end + 1
            return False
        value, seen = True, False
        while not self.done:
            char = self._next()
            if char in ":)":
                return char == ")"
            if char == "-" and value:
                value = False
            elif char in "imsU":
                seen = True
                self._flags = _Flags(
                    value if char == "i" else self._flags.fold_case, value if char == "s" else self._flags.dot_all
                )
            else:
                raise InvalidRegex("invalid or unsupported Perl syntax")
        raise InvalidRegex("missing closing )" if seen else "invalid or unsupported Perl syntax")

    # Escapes and classes.

    def _escape(self) -> Node:
        if self.done:
            raise InvalidRegex("trailing backslash at end of expression")
        match self._text[self._at]:
            case "A":
                self._at += 1
                return Anchor(at_start=True)
            case "z":
                self._at += 1
                return Anchor(at_start=False)
            case "b" | "B":
                return WordBoundary(negated=self._next() == "B")
        return self._escaped_class() or self._literal(self._escaped_char())

    def _escaped_class(self) -> Chars | None:
        """After a backslash: a class of Perl's or Unicode's."""
        char = self._text[self._at]
        if char.lower() in _PERL:
            self._at += 1
            return _PERL[char] if char in _PERL else EVERY - _PERL[char.lower()]
        if char not in "pP":
            return None
        self._at += 1
        negated = char == "P"
        name = ""
        if self._take("{"):
            end = self._text.find("}", self._at)
            if end < 0:
                raise InvalidRegex("invalid character class range")
            name = self._text[self._at : end]
            self._at = end + 1
        elif not self.done:
            name = self._next()
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name not in _UNICODE:
            raise InvalidRegex("invalid character class range")
        return EVERY - _UNICODE[name] if negated else self._folded(_UNICODE[name])

    def _escaped_char(self) -> str:
        if self.done:
            raise InvalidRegex("trailing backslash at end of expression")
        char = self._next()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "0" or (char in _OCTAL and not self.done and self._text[self._at] in _OCTAL):
            while len(char) < 3 and not self.done and self._text[self._at] in _OCTAL:
                char += self._next()
            return chr(int(char, 8))
        if char == "x":
            return self._hexadecimal()
        if char in _WORD or char not in EVERY:
            raise InvalidRegex("invalid escape sequence")
        return char

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            digits = digits if len(digits) == 2 else ""
        if not 1 <= len(digits) <= 6 or not set(digits) <= _POSIX["xdigit"] or int(digits, 16) > 0x10FFFF:
            raise InvalidRegex("invalid escape sequence")
        return chr(int(digits, 16))

    def _bracket(self) -> Chars:
        negated = self._take("^")
        chars: set[str] = set()
        first = True
        while first or not self._peek("]"):
            if self.done:
                raise InvalidRegex("missing closing ]")
            first = False
            chars |= self._bracket_item()
        self._at += 1
        folded = self._folded(frozenset(chars))
        return EVERY - folded if negated else folded

    def _bracket_item(self) -> Chars:
        if self._peek("[:") and (end := self._text.find(":]", self._at)) >= 0:
            name = self._text[self._at + 2 : end]
            self._at = end + 2
            negated = name.startswith("^")
            known = _POSIX.get(name.removeprefix("^"))
            if known is None:
                raise InvalidRegex("invalid character class range")
            return EVERY - known if negated else known
        if self._peek("\\") and self._at + 1 < len(self._text):
            self._at += 1
            chars = self._escaped_class()
            if chars is not None:
                return chars
            self._at -= 1
        low = self._bracket_char()
        if not self._peek("-") or self._peek("-]"):
            return frozenset(low)
        self._at += 1
        high = self._bracket_char()
        if high < low:
            raise InvalidRegex("invalid character class range")
        return frozenset(char for char in EVERY if low <= char <= high)

    def _bracket_char(self) -> str:
        if self.done:
            raise InvalidRegex("missing closing ]")
        return self._escaped_char() if self._take("\\") else self._next()


def _is_number(text: str) -> bool:
    return bool(text) and set(text) <= _DIGITS and (text == "0" or not text.startswith("0")) and len(text) <= 9
