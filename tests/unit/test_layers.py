"""The import contracts of pyproject.toml find what they forbid: each test plants an import into a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("lib", "api", *(f"services/{name}" for name in ("broker", "linker", "mirror", "balancer", "lag")))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


@pytest.fixture
def planted(source: Path) -> Iterator[dict[Path, str]]:
    """What stood in the files that a test changes."""
    originals: dict[Path, str] = {}
    yield originals
    for path, text in originals.items():
        path.write_text(text)


def check(source: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(source / folder) for folder in FOLDERS)}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def test_the_source_keeps_its_contracts(source: Path) -> None:
    result = check(source)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "statement", "broken"),
    [
        ("services/broker/isthmus_broker/core/log/retention.py", "import time", "do no I/O"),
        ("services/broker/isthmus_broker/core/raft/commit.py", "import isthmus_client.errors", "do no I/O"),
        ("services/linker/isthmus_linker/core/batches.py", "import isthmus_service.logs", "do no I/O"),
        ("lib/isthmus_model/regions.py", "import random", "do no I/O"),
        (
            "services/broker/isthmus_broker/core/raft/commit.py",
            "import isthmus_broker.core.replica.leader",
            "in layers",
        ),
        (
            "services/broker/isthmus_broker/edge/transport/limits.py",
            "import isthmus_broker.edge.storage.files",
            "rooms are in layers",
        ),
        (
            "services/broker/isthmus_broker/edge/storage/files.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import isthmus_broker.edge.storage.log",
            "No package imports itself",
        ),
        ("api/isthmus_api/core/flows.py", "import isthmus_api.store.inventory", "decides apart from its I/O"),
        ("services/lag/isthmus_lag/jobs/loss.py", "import isthmus_lag.source", "functions of DataFrames"),
        ("services/linker/isthmus_linker/edge/link.py", "import isthmus_mirror.core.naming", "services never import"),
    ],
    ids=lambda text: text.rsplit("/", 1)[-1],
)
def test_a_forbidden_import_is_reported(
    source: Path, planted: dict[Path, str], module: str, statement: str, broken: str
) -> None:
    path = source / module
    planted[path] = path.read_text()
    path.write_text(f"{planted[path]}\n{statement}\n")
    result = check(source)
    assert result.returncode == 1
    assert any(broken in line and "BROKEN" in line for line in _results(result.stdout)), result.stdout


def test_io_is_reported_behind_a_module_in_between(source: Path, planted: dict[Path, str]) -> None:
    """A core that imports a pure-looking helper which reads a clock."""
    path = source / "lib/isthmus_wire/varints.py"
    planted[path] = path.read_text()
    path.write_text(f"{planted[path]}\nimport time\n")
    result = check(source)
    assert result.returncode == 1
    assert "isthmus_wire.varints -> time" in result.stdout


def _results(report: str) -> list[str]:
    """A line for each contract, put together again where it is wrapped."""
    text = " ".join(report.split("dependencies.", 1)[1].split("Contracts:", 1)[0].split())
    return re.findall(r".*?(?:KEPT|BROKEN)", text)
