"""Frames that once caused a defect, in files: one frame per line in hexadecimal, with a comment that explains it."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"


def entries(name: str) -> list[bytes]:
    """The entries of one file."""
    lines = (line.partition("#")[0].strip() for line in (FOLDER / f"{name}.txt").read_text().splitlines())
    return [bytes.fromhex(line) for line in lines if line]
