"""A model made smaller within a loss that you allow, measured by the results of its kit.

    python demos/compress_model.py --source photos/ --frames 40 --max-loss 0.01 -o small.palm

With --all it also prunes and fine-tunes, which takes minutes, as `palmkit compress` does.
"""

from itertools import islice
from pathlib import Path

from palmkit import engine, kits
from palmkit.engine.compress.compress import compress
from palmkit.engine.compress.pipeline import Step
from palmkit.engine.compress.rounding import WeightRounding
from palmkit.engine.compress.steps import EntropyCoding, default_steps
from palmkit.kits import live
from palmkit.kits.compression import JOBS, KitAgreement
from palmkit.kits.image import SUFFIXES, Image
from palmkit.kits.kit import shipped_model

MODELS = {"face": "face_detector", "mesh": "face_mesh", "portrait": "portrait", "hair": "hair"}


def pictures(source: str, most: int) -> list[Image]:
    if Path(source).is_dir():
        files = (path for path in sorted(Path(source).rglob("*")) if path.suffix in SUFFIXES)
        return [kits.read_image(path) for path in islice(files, most)]
    with live.Live(source, frames=most) as frames:
        return [frame for frame, _ in frames]


def main() -> None:
    parser = live.plain_parser(__doc__)
    parser.add_argument("--source", default="face", help="a folder of pictures, a video (sample)")
    parser.add_argument(
        "--frames", type=live.frame_count, default=20, metavar="N", help="of these N (20)"
    )
    parser.add_argument("--kit", choices=MODELS, default="face", help="(face)")
    parser.add_argument("--model", type=Path, metavar="FILE", help="of the kit (the one shipped)")
    parser.add_argument("--max-loss", type=float, default=0.02, metavar="SHARE", help="(0.02)")
    parser.add_argument("--all", action="store_true", help="all steps, minutes")
    parser.add_argument("-o", "--output", type=live.writable, default="build/demo/small.palm")
    options = parser.parse_args()
    source = options.model or shipped_model(MODELS[options.kit])
    graph = engine.convert(source)
    agreement = KitAgreement(JOBS[options.kit], graph, pictures(options.source, options.frames))
    quick: list[Step] = [WeightRounding(tries=3, most_samples=8), EntropyCoding()]
    steps = default_steps("size") if options.all else quick
    small = compress(graph, agreement.samples, agreement, max_loss=options.max_loss, steps=steps)
    engine.save(small.graph, options.output, weights="smallest")
    for stage in small.stages:
        print(f"{stage.name}: {stage.size_bytes / 1e3:.0f} KB, agrees to {stage.metric:.4f}")
    print(f"{source.stat().st_size / 1e3:.0f} KB to {options.output.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    live.run(main)
