"""Writers of other engines' formats; `engine.save` picks one by the file's suffix."""
