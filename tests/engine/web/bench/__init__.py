"""PalmKit in Chromium beside other engines of the web: `make bench-web`."""
