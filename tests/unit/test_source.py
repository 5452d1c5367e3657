"""The source keeps the rules of CONTRIBUTING.md that no linter knows."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("lib", "services")
FUNCTION_MAX = 70
MODULE_MAX = 500
LONG_MODULES: dict[str, str] = {}
"""Modules above the limit, each with its reason."""


def modules(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.stat().st_size)
    return sorted(found)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name)
def test_a_module_says_its_subject_and_stays_within_limits(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{name(path)} has no docstring"
    if name(path) not in LONG_MODULES:
        assert text.count("\n") <= MODULE_MAX, f"{name(path)} is longer than {MODULE_MAX} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_MAX, f"{name(path)}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize("path", modules("services/broker/isthmus_broker/core", "lib/isthmus_wire"), ids=name)
def test_a_core_never_waits(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{name(path)}:{getattr(node, 'lineno', 0)}"
