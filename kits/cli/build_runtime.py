"""palmkit build-runtime: the runtime with only the kernels that some models need."""

from __future__ import annotations

import argparse

from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.export import add_isas, new_folder, say_how_to_build, usage_errors

DESCRIPTION = """\
Write the runtime as C++17 sources with the C header palm.h, and of its kernels only those that
some model files need. It opens these files and any other whose plans need no more; a file that
does is refused by the name of what is not there. It gives bit for bit what palmkit gives with the
same instruction set, and needs a C++ compiler and CMake to build."""
EXAMPLES = """\
  palmkit build-runtime --models *.palm -o runtime --isa neon       for any 64-bit ARM
  palmkit build-runtime --models a.palm b.palm -o runtime --isa avx2,avx512
  cmake -S runtime -B build && cmake --build build
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "build-runtime",
        run,
        help="write a runtime with only the kernels that some models need",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--models", nargs="+", required=True, metavar="MODEL.palm", help="files with plans"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to make")
    add_isas(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Write the runtime."""
    from palmkit.engine.backends.cpu.c_library import export_runtime

    target = new_folder("-o", options.output)
    with usage_errors():
        export_runtime(options.models, target, options.isa.split(","))
    if not options.quiet:
        say_how_to_build(target, "palm.h")
    return 0
