"""The kinds of events, and the other names that shops have for them."""

from __future__ import annotations

from functools import lru_cache

# What a user does with an item. A model may know others: Schema.events.
EVENTS = ("exposure", "click", "dwell", "skip", "like", "cart", "buy")
# These say that an item was seen and left; all others, that it was wanted.
PASSIVE = ("exposure", "skip", "dislike")
# Any kind that the model does not tell apart from others.
OTHER = "other"

# Names of one kind. Capitals, blanks, "_", "-" and "." make no difference.
_NAMES: dict[str, tuple[str, ...]] = {
    "exposure": (
        *("expose", "exposed", "view", "viewed", "item_view", "impression", "show", "shown"),
        *("see", "seen", "display", "displayed"),
    ),
    "click": ("clicked", "item_click", "clickout", "tap", "tapped", "open", "opened", "select"),
    "dwell": ("dwelled", "dwell_time", "stay", "stayed", "read", "watch", "watched"),
    "skip": (
        *("skipped", "ignore", "ignored", "pass", "passed", "dismiss", "dismissed", "hide"),
        *("hidden", "dislike", "disliked"),
    ),
    "like": (
        *("liked", "favourite", "favorite", "favourited", "favorited", "fav", "upvote", "save"),
        *("saved", "bookmark", "wishlist", "add_to_wishlist", "heart"),
    ),
    "cart": ("add_to_cart", "added_to_cart", "basket", "add_to_basket", "bag", "add_to_bag"),
    "buy": (
        *("bought", "purchase", "purchased", "order", "ordered", "checkout", "transaction"),
        *("pay", "paid", "sale"),
    ),
    OTHER: ("others",),
}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_GROUPS = {_plain(name): kind for kind, names in _NAMES.items() for name in (kind, *names)}


@lru_cache(maxsize=4096)
def kind_of(name: str, events: tuple[str, ...]) -> str | None:
    """Return the one of `events` that a name means, or OTHER; None for an unknown name.

    A kind of `events` means itself; else its name in other letters counts, then names of the same
    kind: "purchase" is "buy", and "buy" is "purchase" for a model that knows that one.
    """
    if name in events:
        return name
    plain = _plain(name)
    by_plain = {_plain(each): each for each in reversed(events)}
    if plain in by_plain:
        return by_plain[plain]
    group = _GROUPS.get(plain)
    if group is None or group == OTHER:
        return group
    return next((each for each in events if _GROUPS.get(_plain(each)) == group), None)


def expected(name: str, events: tuple[str, ...]) -> str:
    """Return the end of a message about an unknown name: what was expected, and probably meant."""
    from palmkit.kits.nearest import did_you_mean

    names = [each for each in (*events, *(n for ns in _NAMES.values() for n in ns))]
    known = [each for each in names if kind_of(each, events) is not None]
    listed = ", ".join((*events, OTHER))
    return f"expected one of {listed}, got {name!r:.60}{did_you_mean(name, known)}"
