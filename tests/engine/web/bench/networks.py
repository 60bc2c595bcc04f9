"""Writes networks for a runtime that has their kernels: python -m ...networks FOLDER MODEL..."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from palmkit import engine
from palmkit.engine.bench.subject import subject
from palmkit.engine.format.model_file import ModelFile


def main() -> None:
    """Write each as a .palm file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="made anew")
    parser.add_argument("models", type=Path, nargs="+")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    for path in options.models:
        if path.suffix == ".palm":
            shutil.copy(path, options.folder)
            continue
        try:
            with subject(path, engine.convert(path)) as each:
                made = each.files["palm"]
                if any(backend == "cpu" for backend, _ in ModelFile(made).plans):
                    shutil.copy(made, options.folder / f"{path.stem}.palm")
                else:
                    print(f"{path.name}: left out: it has no plan")
        except engine.PalmError as error:
            print(f"{path.name}: left out: {error}")


if __name__ == "__main__":
    main()
