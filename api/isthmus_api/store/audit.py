"""The audit log: who changed what, when, with which outcome. An entry is written before the change and completed after it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from isthmus_api.limits import AUDIT_KEPT
from isthmus_api.store.tables import audit


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. Without a status the process ended before the work did."""

    entry_id: int
    at_ms: int
    actor: str
    remote: str
    action: str
    target: str
    status: int | None
    message: str


class Audit:
    """The entries, the newest `AUDIT_KEPT` of them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(self, at_ms: int, actor: str, remote: str, action: str, target: str) -> int:
        """Write an entry before the change; returns its id."""
        async with self._engine.begin() as connection:
            values = {"at_ms": at_ms, "actor": actor, "remote": remote, "action": action, "target": target}
            result = await connection.execute(insert(audit).values(**values, status=None, message=""))
            key = result.inserted_primary_key
            assert key is not None
            await connection.execute(delete(audit).where(audit.c.entry_id <= key[0] - AUDIT_KEPT))
            return int(key[0])

    async def end(self, entry_id: int, status: int, message: str) -> None:
        """Record the outcome of a change."""
        async with self._engine.begin() as connection:
            where = audit.c.entry_id == entry_id
            await connection.execute(update(audit).where(where).values(status=status, message=message))

    async def page(self, before: int | None, most: int) -> list[Entry]:
        """A page of entries older than `before`, the newest first."""
        query = select(audit).order_by(audit.c.entry_id.desc()).limit(most)
        if before is not None:
            query = query.where(audit.c.entry_id < before)
        async with self._engine.connect() as connection:
            return [Entry(**row) for row in (await connection.execute(query)).mappings()]

    async def count(self) -> int:
        """The number of entries."""
        async with self._engine.connect() as connection:
            return int((await connection.execute(select(func.count()).select_from(audit))).scalar_one())
