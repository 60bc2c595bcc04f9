"""The hand kit: hands, their landmarks and gestures."""
