"""The re-ranker: a listwise network with attention over what the user did, and its recipe."""
