"""palmkit models list, pull, pin, rollback, status, gc: the models of this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from palmkit.engine.reading import read_bytes
from palmkit.kits.cli.command import Commands, Run, UsageError, add_command, progress_bar
from palmkit.kits.cli.process import complain

if TYPE_CHECKING:
    from palmkit.delivery import Client

NAME = "a model as `palmkit models list` names it, or with a channel: face_detector@beta"


def add(commands: Commands) -> None:
    """Describe the commands."""
    _add(
        commands,
        "list",
        _list,
        "every model, and which release of it runs",
        "  palmkit models list\n  palmkit models list --json | jq .models[].state\n",
    )
    pull = _add(
        commands,
        "pull",
        _pull,
        "ask the repository what is new, and fetch it",
        "  palmkit models pull --url https://models.example.com --root root.json\n"
        "  palmkit models pull                            all that were asked for here before\n"
        "  palmkit models pull face_detector@beta hair\n",
        "A release that comes is proved on its golden inputs at once, and tried by the next app\n"
        "that uses it. --url and --root are kept in the folder: they are needed once.",
    )
    pull.add_argument("models", nargs="*", metavar="MODEL", help=f"{NAME} (all)")
    pull.add_argument(
        "--url", action="append", metavar="URL", help="of the repository; again for each mirror"
    )
    pull.add_argument(
        "--root",
        metavar="FILE",
        help="its root metadata, which all trust rests on: get it another way than the models",
    )
    pull.add_argument("--quiet", action="store_true", help="no progress bar")
    pin = _add(
        commands,
        "pin",
        _pin,
        "stay with one release of a model, whatever its channel says",
        "  palmkit models pin face_detector 1.1.0\n"
        "  palmkit models pin face_detector embedded      the one that came with PalmKit\n"
        "  palmkit models pin face_detector --none        follow the channel again\n",
    )
    pin.add_argument("model", metavar="MODEL", help=NAME)
    pin.add_argument("release", nargs="?", metavar="RELEASE", help="1.1.0, or embedded")
    pin.add_argument("--none", action="store_true", help="follow the channel again")
    rollback = _add(
        commands,
        "rollback",
        _rollback,
        "go back to the release before, for good",
        "  palmkit models rollback face_detector\n",
        "The release goes into quarantine: it is not taken again unless its publisher says so.",
    )
    rollback.add_argument("model", metavar="MODEL", help=NAME)
    status = _add(
        commands,
        "status",
        _status,
        "what runs, what is on its way, what was refused and why",
        "  palmkit models status\n  palmkit models status face_detector --json\n",
    )
    status.add_argument("model", nargs="?", metavar="MODEL", help=f"{NAME} (all)")
    _add(
        commands,
        "gc",
        _gc,
        "remove the files of releases that nothing needs any more",
        "  palmkit models gc\n",
    )


def _add(
    commands: Commands, name: str, run: Run, help: str, examples: str, description: str = ""
) -> argparse.ArgumentParser:
    text = f"{help[0].upper()}{help[1:]}."
    parser = add_command(commands, name, run, help, f"{text}\n{description}", examples)
    parser.add_argument(
        "--folder",
        metavar="DIR",
        help="where the models are kept ($PALMKIT_DELIVERY_FOLDER, else the user's data folder)",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def _folder(options: argparse.Namespace) -> Path:
    from palmkit.delivery.app import default_folder

    return default_folder() if options.folder is None else Path(options.folder)


def _client(options: argparse.Namespace) -> Client:
    from palmkit.delivery import Client
    from palmkit.delivery.app import noted

    folder = _folder(options)
    return Client(folder, *noted(folder))


def _shown(options: argparse.Namespace, status: dict[str, Any], lines: Iterable[str]) -> int:
    if options.json:
        print(json.dumps(status))
    else:
        for line in lines:
            print(line)
    return 0


def _checked(client: Client, name: str) -> str:
    """Return the name if a model can be called so."""
    try:
        client.status(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return name


def _known(client: Client, name: str) -> dict[str, Any]:
    """Return the status of a model that is here.

    Raises DeliveryError if nothing of it is.
    """
    found: dict[str, Any] = client.status(_checked(client, name))
    if not any(found["models"][0][key] for key in ("embedded", "active", "candidate", "epoch")):
        client.embedded(name)
    return found


def _list(options: argparse.Namespace) -> int:
    status = _all(_client(options))
    lines = [("MODEL", "RUNS", "STATE", "CAME WITH PALMKIT")]
    for each in status["models"]:
        name = f"{each['model']}@{each['channel']}"
        lines.append((name, _runs(each), each["state"].lower(), each["embedded"] or "-"))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return _shown(
        options,
        status,
        ("  ".join([*map(str.ljust, line[:3], widths), line[3]]) for line in lines),
    )


def _all(client: Client) -> dict[str, Any]:
    """Return the status of all that were asked for, and of all that came with PalmKit."""
    from palmkit.delivery.embedded import shipped

    status = client.status()
    known = {each["model"] for each in status["models"]}
    for name in shipped():
        if name not in known:
            status["models"] += client.status(name)["models"]
    found: list[dict[str, Any]] = status["models"]
    found.sort(key=lambda each: (str(each["model"]), str(each["channel"])))
    return status


def _runs(each: dict[str, Any]) -> str:
    if each["pinned"] == "embedded":
        return str(each["embedded"] or "-")
    tried = each["candidate"] if each["state"] == "TRIAL" else None
    return str(tried or each["active"] or each["embedded"] or "-")


def _pull(options: argparse.Namespace) -> int:
    from palmkit.delivery import Client
    from palmkit.delivery.app import note, noted
    from palmkit.delivery.update import Absent
    from palmkit.engine.errors import DeliveryError

    folder = _folder(options)
    urls, root = noted(folder)
    if options.root is not None:
        root = read_bytes(options.root)
    if options.url:
        urls = tuple(map(_url, options.url))
    if not urls or not root:
        raise UsageError("no repository is known here yet: expected --url and --root")
    client = Client(folder, urls, root)
    names = [_checked(client, name) for name in options.models] or [
        f"{each['model']}@{each['channel']}" for each in _all(client)["models"]
    ]
    failed: list[str] = []
    pulled = False
    for name in names:
        with progress_bar(None, "B", options.quiet or options.json) as bar:
            bar.unit_scale = True

            def show(file: str, received: int, size: int, bar: Any = bar) -> None:
                bar.set_description(file, refresh=False)
                bar.total = size
                bar.update(received - bar.n)

            try:
                client.refresh(name, show)
                pulled = True
            except DeliveryError as error:
                is_absent = isinstance(error, Absent)
                if not is_absent or options.models:
                    failed.append(str(error))
                pulled = pulled or is_absent
    if pulled and (options.url or options.root):
        note(folder, urls, root)
    status = _all(client)
    wanted = {name if "@" in name else f"{name}@stable" for name in names}
    status["models"] = [
        each for each in status["models"] if f"{each['model']}@{each['channel']}" in wanted
    ]
    _shown(options, status, map(_sentence, status["models"]))
    for message in dict.fromkeys(failed):
        complain(message)
    return 1 if failed else 0


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise UsageError(f"--url: expected one like https://models.example.com, got {text!r}")
    return text


def _sentence(each: dict[str, Any]) -> str:
    name, runs = f"{each['model']}@{each['channel']}", _runs(each)
    if each["state"] == "STAGED":
        return f"{name}: {each['candidate']} is here and is tried at its next use, {runs} runs now"
    if each["candidate"] and each["state"] != "TRIAL":
        return f"{name}: {each['candidate']} is not all here yet, {runs} runs"
    where = "on trial" if each["state"] == "TRIAL" else "runs"
    return f"{name}: {runs} {where}"


def _pin(options: argparse.Namespace) -> int:
    if (options.release is None) != options.none:
        raise UsageError("expected a RELEASE or --none")
    client = _client(options)
    name = options.model
    _known(client, name)
    if options.none:
        client.unpin(name)
    else:
        client.pin(name, options.release)
    status = client.status(name)
    text = f"pinned to {options.release}" if options.release else "follows its channel"
    pending = "" if options.release == "embedded" else ", from the next pull on"
    return _shown(options, status, [f"{options.model}: {text}{pending}"])


def _rollback(options: argparse.Namespace) -> int:
    client = _client(options)
    before = _runs(_known(client, options.model)["models"][0])
    after = client.rollback(options.model).version
    status = client.status(options.model)
    text = f"from {before} to {after}" if after != before else f"{after} runs, none is before it"
    return _shown(options, status, [f"{options.model}: {text}"])


def _status(options: argparse.Namespace) -> int:
    client = _client(options)
    status = _all(client) if options.model is None else _known(client, options.model)
    return _shown(options, status, _lines(status))


def _lines(status: dict[str, Any]) -> Iterable[str]:
    yield f"{'folder':12} {status['folder']}  {status['size_bytes'] / 1e6:.1f} MB"
    yield f"{'repository':12} {', '.join(status['urls']) or 'none: nothing is asked'}"
    yield f"{'asked':12} {status['checked'] or 'never'}"
    for key, title in (
        ("last_error", "failed"),
        ("not_before", "again from"),
        ("stale_since", "expired"),
    ):
        if status[key]:
            yield f"{title:12} {status[key]}"
    for each in status["models"]:
        yield ""
        yield f"{each['model']}@{each['channel']}  {each['state'].lower()}"
        for key in ("active", "candidate", "previous", "embedded", "arm", "pinned", "held_until"):
            if each[key]:
                yield f"  {key:10} {each[key]}"
        for entry in each["quarantine"]:
            yield f"  refused    {entry['release']}: {entry['code']}, {entry['at']}"


def _gc(options: argparse.Namespace) -> int:
    client = _client(options)
    freed = client.collect()
    status = {"freed_bytes": freed, "size_bytes": client.status()["size_bytes"]}
    return _shown(options, status, [f"{freed / 1e6:.1f} MB freed"])
