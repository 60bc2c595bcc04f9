"""Networks that say something of each place of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palmkit.kits.delivered import Current
from palmkit.kits.image import Image
from palmkit.kits.kit import ModelSource, input_side, output, pixels
from palmkit.kits.options import Options
from palmkit.kits.portrait.refine import Mask

if TYPE_CHECKING:
    from palmkit.engine.backends import DeviceArray


class MaskNetwork:
    """A network from a square view to a mask with as many places or fewer."""

    def __init__(self, model: ModelSource | None, options: Options, name: str, stride: int) -> None:
        """Open the model; None: the one that ships, called `name`.

        options: the kit's. stride: pixels of the view a place of the mask, along each side.
        """
        self.current = Current(model, name, options)
        self._stride = stride
        # Of the view, in pixels; 0 before adopt.
        self.side = 0

    def adopt(self) -> None:
        """Take the model that is current from here on."""
        self.side = input_side(self.current.model)

    def _mask(self, view: Image | DeviceArray) -> Mask:
        """Return the mask of a view: float32[n, n], 0..1.

        view: uint8[side, side, 3], or what Frames.see returns.
        """
        model, places = self.current.model, self.side // self._stride
        given: Any = pixels(model, view) if isinstance(view, np.ndarray) else view
        found = output(model.run({"image": given}), "mask", (1, places, places, 1))
        mask: Mask = found[0, :, :, 0]
        # A user's own model may leave 0..1.
        if not (mask.min() >= 0 and mask.max() <= 1):
            mask = np.clip(np.nan_to_num(mask), 0, 1)
        return mask


class SegmentationNetwork(MaskNetwork):
    """The network of a segmenter, whose mask has a place for each pixel of the view."""

    def __init__(
        self, model: ModelSource | None, options: Options, name: str, *, is_uneven: bool = False
    ) -> None:
        """Open the model; None: the one that ships, called `name`.

        options: the kit's. is_uneven: along outlines its values go up and down from one pixel to
        the next, which is smoothed.
        """
        super().__init__(model, options, name, stride=1)
        self._is_uneven = is_uneven

    def infer(self, view: Image | DeviceArray) -> Mask:
        """Return the mask of a view: float32[side, side], 0..1.

        view: uint8[side, side, 3], or what Frames.see returns.
        """
        mask = self._mask(view)
        if not self._is_uneven:
            return mask
        import cv2

        return cast(Mask, cv2.GaussianBlur(mask, (3, 3), 0))

    def infer_mirrored(self, view: Image) -> Mask:
        """Return the mask of a view's mirror image, mirrored back."""
        return self.infer(np.ascontiguousarray(view[:, ::-1]))[:, ::-1]
