"""So that `python -m palmkit.demos.app` works."""

import sys

from palmkit.demos.app import main

sys.exit(main())
