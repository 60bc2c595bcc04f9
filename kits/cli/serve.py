"""palmkit serve: the server of a team's models."""

from __future__ import annotations

import argparse
import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.process import complain

if TYPE_CHECKING:
    from palmkit.delivery.repository import Repository
    from palmkit.delivery.server.start import Place

DESCRIPTION = """\
Serve models to devices, take their reports, and show both on a web page.

The first start makes all that is missing in FOLDER: keys and an empty repository, a database and
the token that opens the page. Set $PALMKIT_PASSPHRASE to have the keys encrypted. Everything works
from this one process; delivery/SERVER.md tells how it grows: PostgreSQL, more replicas, the static
part on a CDN, keys in a KMS.

Pages on which kits are tried in a browser are not here: `palmkit web` serves those.

Needs an extra: pip install "palmkit[server]", and "palmkit[postgres]" for PostgreSQL.
With $SENTRY_DSN and sentry-sdk installed, errors of the server go to Sentry.
"""
EXAMPLES = """\
  palmkit serve                            in ./palmkit-server, on this machine only
  palmkit serve /srv/models --host 0.0.0.0 --port 80
  palmkit serve --database postgresql://palmkit@db/palmkit
  palmkit serve --reports-only --database postgresql://palmkit@db/palmkit    one more replica
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "serve",
        run,
        help="serve models to devices, and show how they do",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        default=Path("palmkit-server"),
        help="where everything is kept (palmkit-server)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=port, default=8080, help="port to listen on (8080)")
    parser.add_argument(
        "--connections",
        metavar="N",
        type=int,
        help="how many at once; more replace those that do least (what `ulimit -n` allows)",
    )
    parser.add_argument(
        "--connections-per-address",
        metavar="N",
        type=int,
        help="how many at once from one address (an eighth of all)",
    )
    parser.add_argument(
        "--proxy",
        metavar="ADDRESS",
        action="append",
        help="a proxy of yours, not limited as an address is; again for more (127.0.0.1 and ::1)",
    )
    parser.add_argument(
        "--database", metavar="URL", help="sqlite:///FILE or postgresql://... (FOLDER/server.db)"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", type=Path, help="the page's token (FOLDER/admin-token)"
    )
    parser.add_argument(
        "--gate-hours",
        metavar="HOURS",
        type=_hours,
        default=6.0,
        help="how long a rollout stays at each percent (6)",
    )
    parser.add_argument(
        "--gate-reports",
        metavar="N",
        type=_count,
        default=100,
        help="how many devices report at each percent before the next (100)",
    )
    parser.add_argument(
        "--keep-days", metavar="DAYS", type=_days, default=400, help="how long counts stay (400)"
    )
    parser.add_argument(
        "--reports-only",
        action="store_true",
        help="a replica without repository and keys: takes reports, changes nothing",
    )


def _hours(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected hours, got {text!r}")


def port(text: str) -> int:
    """Parse a port; as an argument's type."""
    return _whole(text, 0, 65535, "a port")


def _count(text: str) -> int:
    return _whole(text, 0, 10**9, "0 or more")


def _days(text: str) -> int:
    return _whole(text, 1, 36500, "days, 1 or more")


def _whole(text: str, least: int, most: int, what: str) -> int:
    with suppress(ValueError):
        if least <= int(text) <= most:
            return int(text)
    raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import logging

    try:
        from palmkit.delivery.server.connections import Connections, http_server, listen
        from palmkit.delivery.server.limited_log import LimitedLog
        from palmkit.delivery.server.limits import Limits
        from palmkit.delivery.server.rollouts import Gates
        from palmkit.delivery.server.start import Place, prepare
    except ModuleNotFoundError as error:
        complain(f'needs {error.name}: pip install "palmkit[server]"')
        return 1
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, handlers=[LimitedLog()]
    )
    # These loggers report each key that has not signed yet, and each table.
    for chatty in ("alembic", "tuf", "securesystemslib"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if dsn := os.environ.get("SENTRY_DSN"):
        _report_errors(dsn)
    place = Place(options.folder, options.database, options.token_file)
    gates = Gates(options.gate_hours * 3600, options.gate_reports)
    limits = Limits.of(options.connections, options.connections_per_address, options.proxy)
    server, engine, repository = prepare(
        place, gates, options.keep_days, signs=not options.reports_only
    )
    try:
        connections = Connections(limits, server.metrics.closed_by)
        server.metrics.count_connections(lambda: len(connections))
        sockets = listen(options.host, options.port, connections)
        port = sockets[0].getsockname()[1]
        print(_welcome(options, port, place, repository), flush=True)
        listening = http_server(server.app(), connections)
        listening.run(sockets)
    finally:
        engine.dispose()
    return 0 if listening.started else 1


def _report_errors(dsn: str) -> None:
    try:
        sentry = importlib.import_module("sentry_sdk")
    except ModuleNotFoundError:
        complain("SENTRY_DSN is set, but errors go nowhere: pip install sentry-sdk")
        return
    sentry.init(dsn=dsn, send_default_pii=False)


def _welcome(
    options: argparse.Namespace, port: int, place: Place, repository: Repository | None
) -> str:
    from palmkit.delivery.server.start import PASSPHRASE, public_of

    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{host}:{port}"
    lines = [f"page      {url}/admin/", f"token     {place.token}", f"reports   {url}/v1/reports"]
    if repository is None:
        return "\n".join(lines)
    lines += [
        f"devices   {url if public_of(repository) else repository.storage}/",
        f"root      {place.root}, to be given to the app",
    ]
    if not os.environ.get(PASSPHRASE):
        lines += [
            f"keys      {place.repository}/keys, in the clear: ${PASSPHRASE} encrypts new ones"
        ]
    if not repository.models():
        lines += [
            "",
            "next, in another terminal:",
            f"  export PALMKIT_REPOSITORY={place.repository}",
            "  palmkit models publish face_detector 1.1.0 FILE.palm",
            "  palmkit models promote face_detector 1.1.0 --percent 5",
        ]
    return "\n".join(lines)
