"""One file a change of the tables, oldest first."""
