"""The hand detector: its weights, and the recipe that makes them."""
