"""How each op becomes steps of the native runtime; one file a family."""
