"""Makes `python -m palmkit.demos.app` work."""

import sys

from palmkit.demos.app import main

sys.exit(main())
