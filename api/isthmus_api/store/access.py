"""The digests of the admin key and of the sessions; neither can be read back."""

from __future__ import annotations

from isthmus_model.clocks import WallMs
from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from isthmus_api.limits import SESSIONS_MAX
from isthmus_api.store.tables import secrets, sessions

_ADMIN_KEY = "admin-key"


class Access:
    """Admin key and sessions."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def admin_digest(self, first: str) -> str:
        """Store the digest of the admin key unless there is one; returns the stored digest."""
        try:
            async with self._engine.begin() as connection:
                await connection.execute(insert(secrets).values(name=_ADMIN_KEY, digest=first))
        except IntegrityError:
            return await self.admin_digest_or_none() or first
        return first

    async def admin_digest_or_none(self) -> str | None:
        """The digest of the admin key, if there is one."""
        async with self._engine.connect() as connection:
            query = select(secrets.c.digest).where(secrets.c.name == _ADMIN_KEY)
            return (await connection.execute(query)).scalar_one_or_none()

    async def add_session(self, digest: str, actor: str, now_ms: WallMs, expires_ms: int) -> None:
        """Store a session; expired ones are deleted, and the oldest when there are too many."""
        async with self._engine.begin() as connection:
            await connection.execute(delete(sessions).where(sessions.c.expires_ms <= now_ms))
            count = (await connection.execute(select(func.count()).select_from(sessions))).scalar_one()
            if count >= SESSIONS_MAX:
                oldest = select(sessions.c.digest).order_by(sessions.c.created_ms).limit(count - SESSIONS_MAX + 1)
                await connection.execute(delete(sessions).where(sessions.c.digest.in_(oldest)))
            values = {"digest": digest, "actor": actor, "created_ms": now_ms, "expires_ms": expires_ms}
            await connection.execute(insert(sessions).values(**values))

    async def session_actor(self, digest: str, now_ms: WallMs) -> str | None:
        """The user of a session, if it exists."""
        where = (sessions.c.digest == digest) & (sessions.c.expires_ms > now_ms)
        async with self._engine.connect() as connection:
            return (await connection.execute(select(sessions.c.actor).where(where))).scalar_one_or_none()

    async def end_session(self, digest: str) -> None:
        """Delete a session."""
        async with self._engine.begin() as connection:
            await connection.execute(delete(sessions).where(sessions.c.digest == digest))
