"""The kits' benchmark: from a decoded frame to the result, beside MediaPipe."""
