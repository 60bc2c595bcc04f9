"""The history of the tables, applied by Alembic."""
