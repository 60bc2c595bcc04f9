"""palmkit ops: the operators."""

from __future__ import annotations

import argparse

from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.process import complain

DESCRIPTION = """\
List the ops of the engine, the operators of ONNX, TFLite, TensorFlow and Caffe that become them,
and what runs them on backend cpu: a native kernel, or numpy. Formats whose package is not installed
have no operators in the list.
"""
EXAMPLES = """\
  palmkit ops                        all of them
  palmkit ops pool                   those with "pool" in a name
  palmkit ops --format json
  palmkit ops --format markdown      engine/OPS.md
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "ops",
        run,
        help="list the operators, what becomes them and what runs them",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="a part of a name")
    parser.add_argument(
        "--format", choices=("text", "markdown", "json"), default="text", help="how (text)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    from palmkit.engine.operators import RENDERED, table

    found = table().matching(options.name)
    if not found.operators and not any(found.others.values()):
        complain(f"no operator has this in its name: {options.name}")
        return 1
    print(RENDERED[options.format](found), end="")
    return 0
