"""palmkit doctor: what there is on this machine, and whether it works."""

from __future__ import annotations

import argparse
import json

from palmkit.kits.cli.command import Commands, add_command

DESCRIPTION = """\
Say what there is of PalmKit on this machine, and try it: each backend, each model that came with
it, and each kit on a drawn picture. The text is made to be pasted into an issue: it names no user,
and nothing is sent. Exit code 1 if something does not work.
"""
EXAMPLES = """\
  palmkit doctor
  palmkit doctor --json > report.json
"""
NETWORK = (
    "none; only `palmkit models` opens connections, `palmkit serve` takes them, and `palmkit web` "
    "those of this machine"
)


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "doctor",
        run,
        help="say what there is on this machine, and whether it works",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    from palmkit.kits import doctor

    facts = doctor.machine() | {"network": NETWORK, "repository": doctor.repository()}
    missing = doctor.extras()
    if options.json:
        found = list(doctor.checks())
        said = {"machine": facts, "extras": missing, "checks": [each._asdict() for each in found]}
        print(json.dumps(said))
        return int(not all(each.works for each in found))
    for name, value in facts.items():
        print(f"{name:14}{value}")
    there = [name for name, lacks in missing.items() if not lacks]
    print(f"{'extras':14}{', '.join(there) or 'none'}")
    for name, lacks in missing.items():
        if lacks:
            print(f"  without {name}: {', '.join(lacks)}")
    print()
    failed = 0
    for check in doctor.checks():
        failed += not check.works
        print(f"{'ok' if check.works else 'FAILED':8}{check.name:28}{check.said}", flush=True)
    print()
    print(f"{failed} of these do not work" if failed else "all of it works")
    return int(failed > 0)
