"""Making objects of kio's message classes from plain numbers."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def entity(kind: Callable[..., T], **fields: Any) -> T:
    """An instance of one of kio's classes: their fields want nominal number types, which plain numbers do not have for mypy."""
    return kind(**fields)
