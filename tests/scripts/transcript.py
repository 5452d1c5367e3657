"""Transcripts: commands, each followed by everything it visibly did, reviewed as plain text.

    # A comment.
    command argument name=value
    ----
    what happened

A blank line ends the output. A world is an object whose methods are the commands; a method returns the lines to print. With
`ISTHMUS_REWRITE=1` the output in the files is replaced by what happens now, to be reviewed as a diff.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

SEPARATOR: Final = "----"
NOTHING: Final = "(nothing)"
REWRITE: Final = os.environ.get("ISTHMUS_REWRITE") == "1"


def run(text: str, world: Any) -> str:
    """The transcript with what its commands do now."""
    out: list[str] = []
    lines = iter(text.split("\n"))
    command: list[str] = []
    for line in lines:
        if line == SEPARATOR:
            for _ in _output(lines):
                pass
            assert len(command) == 1, f"one command comes before {SEPARATOR}: {command}"
            out += [command[0], SEPARATOR, *(perform(world, command[0]) or [NOTHING]), ""]
            command = []
        else:
            if line and not line.startswith("#"):
                command.append(line)
            else:
                out.append(line)
    assert not command, f"a command without {SEPARATOR}: {command}"
    return "\n".join(out).rstrip("\n") + "\n"


def _output(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        if not line:
            return
        yield line


def perform(world: Any, command: str) -> list[str]:
    """One command: its name, arguments, and `name=value` for options."""
    name, *words = command.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    arguments = [word for word in words if "=" not in word]
    return list(getattr(world, name.replace("-", "_"))(*arguments, **options))


def check(path: Path, world: Any) -> None:
    """Run a file; it must say what happens, or is rewritten."""
    text = path.read_text()
    now = run(text, world)
    if REWRITE:
        path.write_text(now)
    else:
        assert now == text, f"{path.name} is not what happens; ISTHMUS_REWRITE=1 rewrites it"
