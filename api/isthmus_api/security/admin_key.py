"""The admin key: created at the first start, kept in a file with mode 0600, and as a digest in the database."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from isthmus_api.store.access import Access

FILE: Final = "admin-key"
_BYTES: Final = 32


def digest_of(secret: str) -> str:
    """Digest a secret. Secrets are random and long, so one round of SHA-256 is enough."""
    return sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AdminKey:
    """The digest; `made` is the key itself if this start created it."""

    digest: str
    made: str | None


async def admin_key(access: Access, directory: Path) -> AdminKey:
    """The key in the database; else that of the file; else a new one, written to the file."""
    known = await access.admin_digest_or_none()
    if known is not None:
        return AdminKey(known, None)
    path = directory / FILE
    made = None if path.exists() else _make(path)
    key = path.read_text().strip()
    return AdminKey(await access.admin_digest(digest_of(key)), made)


def _make(path: Path) -> str:
    key = secrets.token_urlsafe(_BYTES)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key}\n")
    return key
