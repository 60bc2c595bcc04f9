"""How try-on comes out on pictures whose hair is known."""
