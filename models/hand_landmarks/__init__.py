"""Hand landmarks and gestures: their weights, and the recipe that makes them."""
