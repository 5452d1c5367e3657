"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Inventory, secrets, sessions, tasks, audit."""
    op.create_table(
        "regions",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("latitude", sa.Float, nullable=False),
        sa.Column("longitude", sa.Float, nullable=False),
    )
    op.create_table(
        "clusters",
        sa.Column("cluster_id", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("bootstrap_servers", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("regions", sa.JSON, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "services",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("metrics_url", sa.Text, nullable=False),
        sa.Column("region", sa.String(255), nullable=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    )
    _tasks()
    op.create_table(
        "audit",
        sa.Column("entry_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("remote", sa.String(64), nullable=False),
        sa.Column("action", sa.String(128), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=True),
        sa.Column("message", sa.Text, nullable=False),
    )


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("input", sa.JSON, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(36), nullable=True),
        sa.Column("owned_until_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("tasks_by_state", "tasks", ["state", "owned_until_ms"])
    op.create_index("tasks_by_time", "tasks", ["created_ms", "task_id"])
    op.create_table(
        "task_items",
        sa.Column("task_id", sa.String(36), sa.ForeignKey("tasks.task_id", ondelete="CASCADE"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("item", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "position"),
    )
