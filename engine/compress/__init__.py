"""Compression: smaller and faster models, with the loss measured at every step."""
