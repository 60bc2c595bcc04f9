"""palmkit models: the models of this machine, and repositories of models."""

from __future__ import annotations

import argparse
import importlib

from palmkit.kits.cli.command import Commands

# Files of this folder with `add(commands)`, as in palmkit.kits.cli.
PARTS = ("models_local", "models_publish", "models_rollout", "models_keys")
DESCRIPTION = """\
Models come with PalmKit, and newer releases of them from a repository that signs what it publishes.
A release is fetched, proved on inputs whose outputs are known, then tried; one that fails goes
back by itself. Without a repository nothing is asked, and the kits run what came with PalmKit.
"""
EXAMPLES = """\
examples:
  palmkit models list                                what is here
  palmkit models pull --url https://models.example.com --root root.json
                                                     from now on; root.json is how it is trusted
  palmkit models pull face_detector@beta             another channel
  palmkit models status face_detector                where it comes from, what was refused and why
  palmkit models rollback face_detector              back to the release before
  palmkit models pin face_detector 1.1.0             stay with one

for those who publish, in a repository (palmkit serve has one, palmkit models create makes one):
  palmkit models publish face_detector 1.1.0 face_detector.palm
  palmkit models promote face_detector 1.1.0 --percent 1
  palmkit models recall face_detector                roll it back
"""


def add(commands: Commands) -> None:
    """Describe the commands."""
    parser = commands.add_parser(
        "models",
        help="list, update, pin and publish models",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in PARTS:
        importlib.import_module(f"palmkit.kits.cli.{name}").add(parts)
