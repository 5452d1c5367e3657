"""Validation of topic names."""

from __future__ import annotations

import re
from typing import Final

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
MAX_NAME_LENGTH: Final = 249


def why_invalid(name: str) -> str | None:
    """Why a topic's name is invalid; None if it is valid."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None if reason is None else f"Topic name is invalid: {reason}"


def collision_key(name: str) -> str | None:
    """The name as metrics show it, with dots as underscores: no two topics may share it. None for names that have neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None
