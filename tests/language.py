"""The words of docs/glossary.md, checked: `python -m tests.language [PATH...]` lists what to rewrite.

Checked are prose (docstrings, comments, and strings with a space in them: help, logs, errors), names (modules, classes, public
functions and methods, metrics), and documents. What stands between backticks or is quoted from Kafka does not count.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]

PROSE: Final[dict[str, str]] = {
    r"told|tells?|telling": "report, record, inform",
    r"heard?|hears|hearing": "receive, contact",
    r"asks?|asked|asking": "request, query, look up",
    r"answer(s|ed|ing)?": "response, respond",
    r"whoever|whomever|somebody|nobody|everybody|anybody": "name the actor",
    r"(go|goes|went|going) on\b": "continue",
    r"anew": "again, new",
    r"for ever": "forever",
    r"all the same": "anyway",
    r"by (itself|themselves)": "automatically, alone",
    r"so long": "this interval, meanwhile",
    r"how far": "offset, progress, lag",
    r"no word of": "no updates from",
    r"(the|at the) door": "admission, authentication",
    r"away": "unreachable, removed",
    r"silent": "stale, unresponsive",
    r"wary|sight|upkeep|departed|evidence": "see the glossary",
    r"stands? (in|by|for)": "is, replaces, standby",
    r"takes? up": "resume, accept",
    r"lacks?|lacking": "is missing, is behind",
    r"found out": "determined, learned",
    r"of which": "whose; or two sentences",
    r"behind in all": "lag",
    r"what is committed": "the high watermark",
    r"where the log ends": "the log end offset",
    r"level with": "caught up with",
    r"thing of the past|made of it|what becomes of|as it likes|come what may": "plain words",
}
"""Banned in prose, each with what to write instead."""

NAMES: Final = frozenset(
    [
        "told",
        "tell",
        "tells",
        "telling",
        "heard",
        "hear",
        "hears",
        "hearing",
        "ask",
        "asks",
        "asked",
        "asking",
        "answer",
        "answers",
        "answered",
        "answering",
        "whoever",
        "nobody",
        "somebody",
        "everybody",
        "anew",
        "door",
        "wary",
        "sight",
        "departed",
        "upkeep",
        "evidence",
        "held",
        "wanted",
        "found",
        "known",
        "seen",
        "looks",
        "look",
        "looked",
        "words",
        "away",
        "silent",
        "lacks",
        "lacking",
        "whom",
    ]
)
"""Words that no module, class, public function, method or metric has in its name."""

LOCALS: Final = frozenset({"told", "found", "asked", "wanted", "heard", "seen", "answer", "answers"})
"""Names that no variable, parameter or attribute of the product has."""

KAFKA: Final[tuple[str, ...]] = ()
"""Parts of sentences that are Kafka's or Confluent's own."""

CODE: Final = ("lib", "api", "services", "bench", "infra", "scripts")
DOCUMENTS: Final = ("*.md",)
CONSOLE: Final = ("web/src",)


class Finding(NamedTuple):
    """One place to rewrite."""

    path: str
    line: int
    word: str
    instead: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.word}' ({self.instead}): {self.text}"


_PROSE: Final = [
    (re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE), use) for pattern, use in PROSE.items()
]
_QUOTED: Final = re.compile(r"`[^`]*`")


def check_prose(path: str, line: int, text: str) -> Iterator[Finding]:
    """Findings in one piece of text."""
    for quote in KAFKA:
        text = text.replace(quote, "")
    for number, part in enumerate(_QUOTED.sub("", text).split("\n")):
        for pattern, instead in _PROSE:
            for match in pattern.finditer(part):
                yield Finding(path, line + number, match[0], instead, part.strip()[:150])


def check_name(path: str, line: int, name: str) -> Iterator[Finding]:
    """Findings in one name of a module, class, function or metric."""
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name):
        if word.lower() in NAMES:
            yield Finding(path, line, word, "see the glossary", name)


def check_python(path: str, source: str) -> Iterator[Finding]:
    """Findings in a module."""
    yield from check_name(path, 1, Path(path).stem)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield from check_prose(path, token.start[0], token.string)
        elif token.type == tokenize.STRING and token.string.strip("frb").strip("'\"").startswith("isthmus_"):
            yield from check_name(path, token.start[0], token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield from check_name(path, node.lineno, node.name)
        name = getattr(node, "id", None) or getattr(node, "arg", None)
        if isinstance(name, str) and name in LOCALS and not path.startswith("tests/"):
            yield Finding(path, getattr(node, "lineno", 1), name, "name it after what it is", name)


def check_lines(path: str, text: str) -> Iterator[Finding]:
    """Findings in a document or a file of the console, where everything is prose."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield from check_prose(path, number, line)


def check_file(path: str) -> Iterator[Finding]:
    """Findings in any file that is checked."""
    text = (ROOT / path).read_text()
    if path.endswith((".ts", ".tsx")):
        for number, line in enumerate(text.split("\n"), 1):
            prose = " ".join(
                re.findall(r"\"[^\"]* [^\"]*\"|`[^`]* [^`]*`|>[^<>{}]*[a-z] [^<>{}]*|//.*|^\s*[A-Z][^{}()=;]*$", line)
            )
            yield from check_prose(path, number, prose.replace("`", ""))
    elif path.endswith(".md"):
        yield from check_lines(path, text)
    else:
        yield from check_python(path, text)


def files(*paths: str) -> list[str]:
    """The files that are checked, all or those under some paths."""
    listed = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.split() if _is_checked(path)]


EXCEPT: Final = ("tests/language.py", "tests/unit/test_language.py", "docs/glossary.md", "tests/conformance/")
"""Three files that name what is banned; the oracle's scripts, whose steps have the names of the recordings."""


def _is_checked(path: str) -> bool:
    if path.startswith(EXCEPT):
        return False
    return path.endswith((".py", ".md")) or (path.startswith(CONSOLE) and path.endswith((".ts", ".tsx")))


def main() -> None:
    """Print the findings."""
    findings = [finding for path in files(*sys.argv[1:]) for finding in check_file(path)]
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")


if __name__ == "__main__":
    main()
