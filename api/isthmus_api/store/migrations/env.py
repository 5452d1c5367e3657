"""Alembic's entry: the caller hands over a connection, within a transaction of its own."""

from alembic import context

from isthmus_api.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
