"""Networks that say something of each place of a view, as kits run them beside their own."""

from __future__ import annotations

from palmkit.kits.delivered import Current
from palmkit.kits.image import Image
from palmkit.kits.kit import ModelSource, input_side, output, pixels
from palmkit.kits.options import Options
from palmkit.kits.portrait.refine import Mask


class MaskNetwork:
    """A network from a square view to a mask with fewer places."""

    def __init__(self, model: ModelSource | None, options: Options, name: str, stride: int) -> None:
        """Open the model; None: the one that ships, called `name`.

        options: the kit's. stride: pixels of the view a place of the mask, along each side.
        """
        self.current = Current(model, name, options)
        self._stride, self._side = stride, 0

    def adopt(self) -> None:
        """Take the model that is current from here on."""
        self._side = input_side(self.current.model)

    def _mask(self, view: Image) -> Mask:
        """Return the mask of uint8[side, side, 3]: float32[n, n]."""
        model, places = self.current.model, self._side // self._stride
        found = output(model.run({"image": pixels(model, view)}), "mask", (1, places, places, 1))
        mask: Mask = found[0, :, :, 0]
        return mask
