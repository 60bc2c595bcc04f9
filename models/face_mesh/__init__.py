"""The face mesh: its recipe and its weights."""
