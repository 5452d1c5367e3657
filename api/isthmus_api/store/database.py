"""Opening the database: the engine, and the migrations to this version's tables."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_BUSY_MS: Final = 5000
_POOL_SIZE: Final = 5
# An arbitrary number: the advisory lock that every process takes while it migrates a PostgreSQL database.
_MIGRATION_LOCK: Final = 0x1574
_DRIVERS: Final = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


class StoreRefused(Exception):
    """The store's URL is not one of SQLite or PostgreSQL."""


def default_url(directory: Path) -> str:
    """The default store, a file in the data directory."""
    return f"sqlite:///{(directory / 'api.db').absolute()}"


async def open_database(url: str) -> AsyncEngine:
    """An engine whose tables are those of this version; raises StoreRefused, or OSError and SQLAlchemyError from the driver."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreRefused(
            f"'{url}' is not a database URL; write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from error
    driver = _DRIVERS.get(parsed.drivername.split("+")[0])
    if driver is None:
        raise StoreRefused(f"the store is SQLite or PostgreSQL, not {parsed.drivername}")
    options: dict[str, Any] = {} if driver.startswith("sqlite") else {"pool_size": _POOL_SIZE, "pool_pre_ping": True}
    engine = create_async_engine(parsed.set(drivername=driver), **options)
    if driver.startswith("sqlite"):
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        if parsed.database:
            # It holds sessions and the audit log: readable by the operator only.
            os.close(os.open(parsed.database, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_migrate)
    except BaseException:
        await engine.dispose()
        raise
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={_BUSY_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
    else:
        # Python's SQLite begins no transaction before it makes a table; half a migration must not remain.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # Alembic logs every step
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
