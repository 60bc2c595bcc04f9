"""Loads and runs damaged models until time is up: `python -m tests.engine.format.fuzz --help`.

Anything but a PalmError ends it, and so does a run of more than a minute; the file that did it
is kept. It is written before it is tried, so that it is there after a crash of the process too.
"""

import argparse
import faulthandler
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tqdm import tqdm

from palmkit import engine
from palmkit.engine.errors import PalmError
from palmkit.engine.format import PLAN_MARK, writer
from palmkit.engine.ir import Type
from tests.engine.format.samples import coded, everything, mutants, network, single_ops, unpacked

INPUT_LIMIT_BYTES = 2**26
MEMORY_LIMIT_BYTES = 2**34
HANG_S = 60


def run(path: Path, rng: np.random.Generator) -> str:
    """Load and run one file; return the outcome."""
    try:
        model = engine.load(path)
        types = {
            name: Type(type.dtype, tuple(dim if isinstance(dim, int) else 2 for dim in type.shape))
            for name, type in model.inputs.items()
        }
        if sum(type.size_bytes for type in types.values()) > INPUT_LIMIT_BYTES:
            return "too large to run"
        outputs = model.run(
            {name: rng.standard_normal(t.dims).astype(t.dtype) for name, t in types.items()}
        )
    except PalmError as error:
        return type(error).__name__
    # What a file says of its outputs is only a hint while its inputs have dims that are names.
    is_static = all(type.is_static for type in model.inputs.values())
    for name, expected in model.outputs.items() if is_static else ():
        assert Type.of(outputs[name]) == expected, f"output {name}: expected {expected}"
    return "runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, help=".palm files to damage")
    parser.add_argument("--seconds", type=float, default=60, help="how long, in all")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same files")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where files go")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    faulthandler.enable()
    options.keep.mkdir(parents=True, exist_ok=True)
    path = options.keep / "last.palm"
    rng, numbers = random.Random(options.seed), np.random.default_rng(options.seed)
    graphs = [everything(), network(), *single_ops()]
    graphs += [coded()]
    sources = [writer.dumps(graph, "auto") for graph in graphs]
    # Not deflated, so that damage comes as far as the constants.
    sources += [unpacked(coded())] * 20
    for graph in graphs:
        engine.save(graph, path)
        if PLAN_MARK in (content := path.read_bytes()):
            sources.append(content)
    sources += [model.read_bytes() for model in options.models]
    streams = [mutants(source, rng) for source in sources]
    results = Counter[str]()
    end = time.monotonic() + options.seconds
    with tqdm(unit="file", desc="fuzz", mininterval=1, disable=None) as progress:
        while time.monotonic() < end:
            path.write_bytes(next(rng.choice(streams)))
            try:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
                results[run(path, numbers)] += 1
                faulthandler.cancel_dump_traceback_later()
            except Exception:
                kept = path.rename(options.keep / f"failed-{options.seed}-{results.total()}.palm")
                print(f"\nkept as {kept}", file=sys.stderr)
                raise
            progress.update()
    print(", ".join(f"{name} {count}" for name, count in results.most_common()))


if __name__ == "__main__":
    main()
