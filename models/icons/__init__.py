"""A classifier of drawn icons: the example that shows how far a network can be compressed."""
