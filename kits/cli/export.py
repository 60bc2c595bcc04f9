"""palmkit export: models as a C library with nothing but what they need."""

from __future__ import annotations

import argparse
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar

if TYPE_CHECKING:
    from palmkit.engine.ir import Graph

DESCRIPTION = """\
Write one model or several as a C library: their plans and weights, and of the runtime only the
kernels that they need, as C++17 with a C header of four functions a model. It takes memory when
it is started and never after, has no exceptions or files and, unless asked for, no threads, and
gives bit for bit what palmkit gives with the same instruction set. It needs a C++ compiler to
build."""
EXAMPLES = """\
  palmkit export net.palm --c net_library --isa avx2
  palmkit export net.tflite --c net_library --isa neon                for any 64-bit ARM
  palmkit export a.palm b.palm --c both --isa avx2,avx512             two models, the better set
  palmkit export net.onnx --c net_library --isa avx2 --input-shape 1x3x320x320
  cmake -S net_library -B build && cmake --build build
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "export",
        run,
        help="write models as a C library with only the kernels that they need",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help=model_files.FILES)
    parser.add_argument("--c", dest="folder", metavar="DIR", required=True, help="folder to make")
    add_isas(parser)
    parser.add_argument(
        "--name", help="of the library, and of the functions of a model alone (the file's)"
    )
    parser.add_argument(
        "--threads",
        action="store_true",
        help="let runs be shared among threads, whose number `start` is given",
    )
    model_files.add_shapes(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    model_files.add_source_options(parser)


def add_isas(parser: argparse.ArgumentParser) -> None:
    """Add --isa, for what is written as sources."""
    parser.add_argument(
        "--isa",
        required=True,
        metavar="SET[,SET]",
        help="instruction sets of one processor: neon, neon_dotprod; avx2, avx512; wasm,"
        " wasm_relaxed; scalar",
    )


def run(options: argparse.Namespace) -> int:
    """Write the library."""
    from palmkit.engine.backends.cpu.c_library import Exported, export_c

    target = new_folder("--c", options.folder)
    if len(options.models) > 1 and options.input_shapes:
        raise UsageError("--input-shape: for one model; give several models sizes by convert")
    with progress_bar(len(options.models) + 1, "step", options.quiet) as bar:
        models: list[Exported] = []
        for path in options.models:
            bar.set_description(f"read {Path(path).name}")
            alone = options.name if len(options.models) == 1 else None
            models.append(Exported(alone or _named(path), _sized(options, path)))
            bar.update()
        bar.set_description("write")
        with usage_errors():
            export_c(models, target, options.isa.split(","), options.name, options.threads)
        bar.update()
    if not options.quiet:
        say_how_to_build(target, *(f"{each.name}.h" for each in models))
    return 0


def new_folder(flag: str, path: str) -> Path:
    """Return the path of a folder to make; UsageError if there is something already."""
    target = Path(path)
    if target.exists():
        raise UsageError(f"{flag}: expected a folder that is not there yet, got {path!r}")
    return target


@contextmanager
def usage_errors() -> Generator[None]:
    """Make a UsageError of what is said of arguments; errors of PalmKit stay as they are."""
    from palmkit.engine import PalmError

    try:
        yield
    except PalmError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None


def say_how_to_build(target: Path, *headers: str) -> None:
    """Print what was made, and the line that builds it."""
    print(f"{target}: {', '.join(headers)}")
    print(f"build it: cmake -S {target} -B build && cmake --build build")


def _named(path: str) -> str:
    """A name for C's functions, from a file's."""
    name = re.sub(r"\W+", "_", Path(path).stem.lower(), flags=re.ASCII).strip("_")
    return name if name and name[0].isalpha() else f"model_{name}"


def _sized(options: argparse.Namespace, path: str) -> Graph:
    graph = model_files.read(options, path)
    open_sizes = [name for name, type in graph.inputs.items() if not type.is_static]
    if open_sizes:
        raise UsageError(
            f"{path}: the sizes of {', '.join(open_sizes)} are open: give them by --input-shape"
        )
    return graph
