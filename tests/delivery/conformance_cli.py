#!/usr/bin/env python3
"""The client as the TUF conformance suite drives it, over our trust and HTTP.

--metadata-dir D init ROOT
--metadata-dir D --metadata-url U refresh
--metadata-dir D --metadata-url U --target-name P ... --target-base-url V --target-dir T download
"""

import argparse
import sys
from pathlib import Path
from urllib.parse import quote

from palmkit.delivery import durable
from palmkit.delivery.trust import Mirror, Remote
from palmkit.engine.errors import DeliveryError

# Not .json: every such file in the folder is taken for a role's metadata.
TRUSTED_ROOT = "trusted_root"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata-dir", type=Path, required=True)
    parser.add_argument("--metadata-url")
    parser.add_argument("--target-name", action="append", default=[])
    parser.add_argument("--target-base-url")
    parser.add_argument("--target-dir", type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init").add_argument("root", type=Path)
    commands.add_parser("refresh")
    commands.add_parser("download")
    options = parser.parse_args()
    folder: Path = options.metadata_dir
    try:
        if options.command == "init":
            folder.mkdir(parents=True, exist_ok=True)
            content = options.root.read_bytes()
            for name in (TRUSTED_ROOT, "root.json"):
                durable.write(folder / name, content)
            return 0
        mirror = Mirror(
            options.metadata_url.rstrip("/") + "/",
            (options.target_base_url or "").rstrip("/") + "/",
        )
        remote = Remote(folder, [mirror], (folder / TRUSTED_ROOT).read_bytes())
        remote.refresh()
        if options.command == "download":
            for name in options.target_name:
                content = remote.target(name)
                # One flat, safe name for each target, the same for all its versions.
                file = options.target_dir / quote(name, safe="")
                if not (file.is_file() and file.read_bytes() == content):
                    durable.write(file, content)
    except (DeliveryError, OSError) as error:
        print(f"{getattr(error, 'code', 'error')}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
