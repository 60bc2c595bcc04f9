"""Pictures as bad as albums have them: dark, coarse, noisy, blurred, compressed, old.

`disturb` imitates what one camera and another make of a scene. Here a picture loses so much that
networks which read fine detail err, though people still see what it shows. What is known of the
picture before is what is to be told of it after.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.training.pixels import (
    blur,
    compress,
    constant,
    enlarged,
    grey,
    log_uniform,
    uniform,
)

# Shares of the pictures in bad light, of these too bright; old photographs; out of focus or shaken.
BADLY_LIT, TOO_BRIGHT, OLD, BLURRED = 0.4, 0.25, 0.12, 0.35
# How much light is left in the dark, and how much there is where it is too much.
DARK, BRIGHT = (0.08, 0.6), (1.3, 2.3)
# Standard deviations of blurs, in pixels of the picture.
BLUR = (0.4, 2.5)
# Shares of the pictures that were this many times smaller once, and noisy and compressed as such;
# the rest always were as large.
COARSE = {2: 0.3, 4: 0.2}
# Shares of noisy and of compressed pictures; the noise's standard deviation at most; factors of the
# standard luminance table of JPEG: .5 is a quality of 75, 2 of 25, 6 of 8.
NOISY, NOISE = 0.5, 0.15
COMPRESSED, STEPS = 0.7, (0.4, 7.0)
# The colours of faded prints.
TONES = ((1.0, 0.86, 0.64), (1.0, 0.95, 0.85), (0.92, 0.95, 1.0), (1.0, 1.0, 1.0))


def degraded(images: Tensor) -> Tensor:
    """Return float32[n, 3, h, w] 0..1, each worse in ways drawn for it; sides multiples of 32."""
    if not len(images):
        return images
    images = old(badly_lit(images))
    shape, device = (len(images), 1, 1, 1), images.device
    spread = log_uniform(*BLUR, len(images), 2, device=device)
    # Half of them are out of focus: as soft across as down. The others moved.
    even = torch.rand(len(images), 1, device=device) < 0.5
    spread = torch.where(even, spread[:, :1], spread)
    soft = torch.rand(shape, device=device) < BLURRED
    images = torch.where(soft, blur(images, spread), images)
    which, result, low = torch.rand(shape, device=device), stored(images), 0.0
    for factor, share in COARSE.items():
        large = enlarged(stored(functional.avg_pool2d(images, factor)), factor)
        result = torch.where((which >= low) & (which < low + share), large, result)
        low += share
    return result


def badly_lit(images: Tensor) -> Tensor:
    """Leave some pictures little light, or give them more than a camera can take."""
    shape, device = (len(images), 1, 1, 1), images.device
    light = log_uniform(*DARK, *shape, device=device)
    glare = uniform(*BRIGHT, *shape, device=device)
    light = torch.where(torch.rand(shape, device=device) < TOO_BRIGHT, glare, light)
    chosen = torch.rand(shape, device=device) < BADLY_LIT
    return torch.where(chosen, images * light, images).clamp(0, 1)


def old(images: Tensor) -> Tensor:
    """Make prints of some: grey or of one tone, faded."""
    count, device = len(images), images.device
    black = uniform(0.0, 0.3, count, 1, 1, 1, device=device)
    faded = black + (uniform(0.6, 1.0, count, 1, 1, 1, device=device) - black) * grey(images)
    tone = constant(TONES, device)[torch.randint(len(TONES), (count,), device=device)]
    chosen = torch.rand(count, 1, 1, 1, device=device) < OLD
    return torch.where(chosen, faded * tone[:, :, None, None], images)


def stored(images: Tensor) -> Tensor:
    """Add noise of a sensor or of grain, and compress: what a file of this size keeps."""
    count, device = len(images), images.device
    noise = torch.randn_like(images)
    grain = noise[:, :1].expand_as(noise)
    noise = torch.where(torch.rand(count, 1, 1, 1, device=device) < 0.4, grain, noise)
    strength = uniform(0.0, NOISE, count, 1, 1, 1, device=device)
    strength = torch.where(torch.rand(count, 1, 1, 1, device=device) < NOISY, strength, 0.0)
    images = (images + noise * strength).clamp(0, 1)
    # What is dark has few levels.
    images = (images * 255).round() / 255
    steps = log_uniform(*STEPS, count, device=device)
    steps = torch.where(torch.rand(count, device=device) < COMPRESSED, steps, 0.0)
    return compress(images, steps).clamp(0, 1)
