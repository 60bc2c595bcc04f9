"""Runs the migrations on the connection that database.migrate provides."""

from alembic import context

from palmkit.delivery.server.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
