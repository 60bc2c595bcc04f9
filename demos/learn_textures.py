"""Teach a network textures on this machine: a new last layer on the features of another network.

    python demos/learn_textures.py
    python demos/learn_textures.py --source oak.jpg pine.jpg beech.jpg -o woods.palm

The left half of each picture is for training, the right half for the test.
"""

from pathlib import Path
from typing import Any

import numpy as np

from palmkit import engine, kits
from palmkit.engine import train
from palmkit.engine.shapes import with_input_shapes
from palmkit.kits import live
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model

SIDE, COUNT = 256, 6


def squares(pictures: list[Image], half: int, rng: np.random.Generator) -> dict[str, Any]:
    found = np.zeros((COUNT, SIDE, SIDE, 3), np.float32)
    for row in range(COUNT):
        part = np.array_split(pictures[row % len(pictures)], 2, axis=1)[half]
        top, left = rng.integers(np.array(part.shape[:2]) - SIDE + 1).tolist()
        square = np.rot90(part[top : top + SIDE, left : left + SIDE], int(rng.integers(4)))
        lit = square * rng.uniform(0.6, 1.2) + rng.normal(0, 8, square.shape)
        found[row] = np.clip(lit, 0, 255)
    return {"image": found}


def main() -> None:
    parser = live.plain_parser(__doc__)
    parser.add_argument("--source", nargs="+", metavar="FILE", help="(brick, grass and gravel)")
    parser.add_argument("--frames", type=live.frame_count, default=60, help="steps (60)")
    parser.add_argument("-o", "--output", type=live.writable, default="build/demo/textures.palm")
    options = parser.parse_args()
    names = [Path(path).stem for path in options.source or live.TEXTURES]
    pictures = [kits.read_image(path) for path in options.source or map(live.sample, names)]
    network = engine.convert(shipped_model("portrait"))
    *_, seen = (node.outputs[0] for node in network.nodes if node.op == "reduce_mean")
    network = with_input_shapes(network, {"image": (COUNT, SIDE, SIDE, 3)})
    classifier, parameters = train.with_classifier(network, seen, names)
    trainer = train.Trainer(classifier, "logits", "cross_entropy", parameters, train.Adam(0.02))
    rng, kinds = np.random.default_rng(0), np.arange(COUNT) % len(names)
    target = np.eye(len(names), dtype=np.float32)[kinds]
    losses = [trainer.step(squares(pictures, 0, rng), target) for _ in range(options.frames)]
    engine.save(trainer.graph, options.output)
    model = engine.load(options.output)
    told = [model.run(squares(pictures, 1, rng))["logits"].argmax(1) == kinds for _ in range(10)]
    print(f"loss {losses[0]:.2f}, after {len(losses)} steps {losses[-1]:.2f}")
    print(f"{np.sum(told)} of {np.size(told)} squares of the other halves told right")


if __name__ == "__main__":
    live.run(main)
