"""How carefully a kit looks: fast, best, or best at the pictures that need it.

Videos are looked at with the fast networks unless the best ones are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from palmkit.kits.options import RUNNING, WHAT, OneOf, option

if TYPE_CHECKING:
    from palmkit.kits.kit import ModelSource

Quality: TypeAlias = Literal["auto", "fast", "best"]
Network = TypeVar("Network")


def quality_option(best: str, auto: str, group: str = WHAT) -> Quality:
    """Define the option `quality` of a kit.

    best, auto: what these are, for help() and --help.
    """
    return option(
        "auto",
        f"fast, or best: {best}; auto: {auto}",
        OneOf(*get_args(Quality)),
        group=group,
    )


def is_best(quality: Quality, has_time: bool) -> bool:
    """Return whether a kit that has one network for all looks takes the best one.

    has_time: whether there is time for it where nobody asked.
    """
    return quality == "best" or (quality == "auto" and has_time)


def best_option(example: str, fast: str = "`model`") -> ModelSource | None:
    """Define the option of a kit that names another model of the best quality for auto.

    example: such a model. fast: what the one of the fast quality is called.
    """
    return option(
        None,
        f"another model with which auto looks again, as `model`, such as {example}@stable; beside"
        f" another {fast} alone there is none",
        group=RUNNING,
        metavar="FILE",
    )


class Networks(NamedTuple):
    """The names of a task's shipped networks."""

    fast: str
    best: str

    def opened(
        self,
        open_network: Callable[[ModelSource | None, str], Network],
        quality: Quality,
        model: ModelSource | None,
        best_model: ModelSource | None,
        *,
        of_pictures: bool,
    ) -> tuple[Network, Network | None]:
        """Return the network that looks first, and the one that may look again, if one does.

        open_network: opens a model, or for None the shipped one of a name. model, best_model:
        options of the kit, None for the shipped ones; where only the first is given there is no
        second network. of_pictures: whether there is time to look again.
        """
        if quality == "best":
            return open_network(model, self.best), None
        first = open_network(model, self.fast)
        if quality == "fast" or not of_pictures or (best_model is None and model is not None):
            return first, None
        return first, open_network(best_model, self.best)
