"""The goods of the feed, generated from seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from palmkit.kits.ranking.schema import Schema

# Usual prices in euros.
PRICES = {
    "cup": 12.0, "shoe": 80.0, "lamp": 60.0, "bag": 70.0,
    "chair": 110.0, "plant": 18.0, "watch": 140.0, "hat": 35.0,
}  # fmt: skip
COLOURS = {
    "red": "#c8413b",
    "orange": "#e08a3c",
    "yellow": "#dcb83a",
    "green": "#5a9e58",
    "blue": "#3f78c0",
    "violet": "#8159b0",
    "grey": "#7d848c",
}
MAKERS = ("Arvo", "Belna", "Corrin", "Dasto", "Elmi", "Fenno")
_WORDS = ("Alba", "Brio", "Cala", "Duna", "Eco", "Faro", "Gala", "Iris", "Luma", "Moro", "Nido")
# Goods have no order of the shop: with one shelf for all, only the visitor's actions decide.
SCHEMA = Schema(
    categories=("category", "maker", "colour"),
    numbers=("stars",),
    embeddings={"look": 8},
    position="shelf",
    price="price",
)


@dataclass(frozen=True)
class Good:
    """An item on offer.

    price: euros. stars: 1 to 5. look: float[8], close for similar looks. seed: of its shape.
    """

    id: str
    category: str
    colour: str
    maker: str
    name: str
    price: float
    stars: float
    look: tuple[float, ...]
    seed: int

    @property
    def title(self) -> str:
        """Return a title such as "green chair"."""
        return f"{self.colour} {self.category}"

    def row(self) -> dict[str, Any]:
        """Return the good as the re-ranker takes it, by SCHEMA."""
        return {
            "id": self.id,
            "category": self.category,
            "maker": self.maker,
            "colour": self.colour,
            "stars": self.stars,
            "look": self.look,
            "shelf": 1,
            "price": self.price,
        }


def make_goods(count: int, seed: int) -> list[Good]:
    """Return goods, the same for the same seed; each kind about equally often."""
    random = np.random.default_rng(seed)
    # The directions of kinds and colours are the shop's, the same on every page.
    shop = np.random.default_rng(7)
    kinds = {name: shop.standard_normal(8) for name in PRICES}
    colours = {name: 0.8 * shop.standard_normal(8) for name in COLOURS}
    names = [list(PRICES)[at % len(PRICES)] for at in range(count)]
    random.shuffle(names)
    found: list[Good] = []
    for number, category in enumerate(names):
        colour = str(random.choice(list(COLOURS)))
        look = kinds[category] + colours[colour] + 0.3 * random.standard_normal(8)
        look = look / np.linalg.norm(look)
        euros = PRICES[category] * float(np.exp(0.45 * random.standard_normal()))
        found.append(
            Good(
                id=f"{seed}-{number}",
                category=category,
                colour=colour,
                maker=str(random.choice(MAKERS)),
                name=f"{random.choice(_WORDS)} {int(random.integers(1, 10))}",
                price=round(euros) - 0.05,
                stars=float(random.integers(4, 11)) / 2,
                look=tuple(map(float, look)),
                seed=int(random.integers(1 << 30)),
            )
        )
    return found
