"""Opens and runs damaged files in C until time is up: `python -m tests.engine.native.fuzz --help`.

Anything but a status ends it; the file that did it is build/fuzz-c/last.palm.
"""

import argparse
import shutil
import subprocess
import sys

from tests.engine.native import golden
from tests.engine.native.program import ROOT, compiled, sources_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same files")
    parser.add_argument(
        "--sanitizer", default="", help="of the library in build/sanitize: address,undefined"
    )
    options = parser.parse_args()
    folder = ROOT / "build" / "fuzz-c"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = compiled(sources_of("palm_fuzz"), folder, options.sanitizer)
    models = golden.write(folder / "golden")
    command = [str(program), str(options.seconds), str(options.seed), *map(str, models)]
    sys.exit(subprocess.run(command, cwd=folder, check=False).returncode)


if __name__ == "__main__":
    main()
