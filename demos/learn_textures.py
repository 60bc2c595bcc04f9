"""Teach a network three textures on this machine: a new last layer on what it sees.

    python demos/learn_textures.py -o build/textures.palm

Needs the extra `demos`: the pictures are scikit-image's brick, grass and gravel. The left half of
each is learned from, the right half is for the test. The network is the one that finds people.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import skimage.data
from numpy.typing import NDArray

from palmkit import engine
from palmkit.engine import train
from palmkit.engine.shapes import with_input_shapes
from palmkit.kits.kit import shipped_model

CLASSES = ("brick", "grass", "gravel")
KINDS = np.arange(6) % 3
SIDE, STEPS = 256, 60


def pictures(rng: np.random.Generator, left: bool) -> NDArray[np.float32]:
    """float32[6, 256, 256, 3]: two squares of each texture, from the left or the right half."""
    squares = np.zeros((len(KINDS), SIDE, SIDE, 3), np.float32)
    for square, name in zip(squares, CLASSES * 2, strict=True):
        texture: NDArray[np.uint8] = getattr(skimage.data, name)()
        half, top = texture[:, :SIDE] if left else texture[:, SIDE:], int(rng.integers(SIDE))
        lit = np.rot90(half[top : top + SIDE], int(rng.integers(4))) * rng.uniform(0.6, 1.2)
        square[...] = np.clip(lit + rng.normal(0, 8, lit.shape), 0, 255)[..., None]
    return squares


def main() -> None:
    parser = argparse.ArgumentParser(description="Teach a network three textures.")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/textures.palm"))
    target: Path = parser.parse_args().output
    network = engine.convert(shipped_model("portrait"))
    (seen,) = (node.outputs[0] for node in network.nodes if node.op == "reduce_mean")
    network = with_input_shapes(network, {"image": (len(KINDS), SIDE, SIDE, 3)})
    classifier, parameters = train.with_classifier(network, seen, CLASSES)
    trainer = train.Trainer(classifier, "logits", "cross_entropy", parameters, train.Adam(0.02))
    rng, start, wanted = np.random.default_rng(0), time.perf_counter(), np.eye(3)[KINDS]
    for step in range(STEPS):
        loss = trainer.step({"image": pictures(rng, left=True)}, wanted.astype(np.float32))
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss:.3f}, {time.perf_counter() - start:.1f} s")
    target.parent.mkdir(parents=True, exist_ok=True)
    engine.save(trainer.graph, target)
    model = engine.load(target)
    told = [model.run({"image": pictures(rng, left=False)})["logits"].argmax(1) for _ in range(10)]
    print(f"{np.sum(told == KINDS)} of {np.size(told)} squares of the other halves told right")


if __name__ == "__main__":
    main()
