"""python -m palmkit.kits.cli is the palmkit command."""

import sys

from palmkit.kits.cli import main

if __name__ == "__main__":
    sys.exit(main())
