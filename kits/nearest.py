"""The nearest of the words that were expected, for messages about another one."""

from __future__ import annotations

from collections.abc import Iterable

# The least share of their letters that two words have in common, in order: "fase" and "face" .75.
LEAST_ALIKE = 0.72


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one; None if none is like it.

    Capitals and dashes in front are no difference, and neither are "_" and "-".
    """
    from difflib import get_close_matches

    plain = {_plain(each): each for each in known}
    found = get_close_matches(_plain(word), plain, 1, LEAST_ALIKE)
    return plain[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: ", did you mean face?"; "" if no known word is like this one."""
    found = nearest(word, known)
    return "" if found is None else f", did you mean {found}?"


def _plain(word: str) -> str:
    return word.lstrip("-").lower().replace("_", "-")
