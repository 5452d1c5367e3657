"""The tables. A change here needs a new file in `migrations/versions`."""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

# SQLite only increments INTEGER keys.
_IDENTITY: Final = BigInteger().with_variant(Integer, "sqlite")

metadata: Final = MetaData()

regions: Final = Table(
    "regions",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("title", Text, nullable=False),
    Column("latitude", Float, nullable=False),
    Column("longitude", Float, nullable=False),
)

clusters: Final = Table(
    "clusters",
    metadata,
    Column("cluster_id", String(255), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("bootstrap_servers", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("regions", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

services: Final = Table(
    "services",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("metrics_url", Text, nullable=False),
    Column("region", String(255), nullable=True),
    Column("created_ms", BigInteger, nullable=False),
)

secrets: Final = Table(
    "secrets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
)

sessions: Final = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("actor", String(255), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)

tasks: Final = Table(
    "tasks",
    metadata,
    Column("task_id", String(36), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("actor", String(255), nullable=False),
    Column("input", JSON, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("owner", String(36), nullable=True),
    Column("owned_until_ms", BigInteger, nullable=False),
    Index("tasks_by_state", "state", "owned_until_ms"),
    Index("tasks_by_time", "created_ms", "task_id"),
)

task_items: Final = Table(
    "task_items",
    metadata,
    Column("task_id", String(36), ForeignKey("tasks.task_id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("item", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("message", Text, nullable=False),
    PrimaryKeyConstraint("task_id", "position"),
)

audit: Final = Table(
    "audit",
    metadata,
    Column("entry_id", _IDENTITY, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("remote", String(64), nullable=False),
    Column("action", String(128), nullable=False),
    Column("target", Text, nullable=False),
    # Null while the request is in progress, and forever if the process ended meanwhile.
    Column("status", Integer, nullable=True),
    Column("message", Text, nullable=False),
)
