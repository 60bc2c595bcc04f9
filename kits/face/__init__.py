"""Faces: where they are, with eyes, nose and mouth."""
