"""`python -m portico`."""

import sys

from portico.cli.main import main

sys.exit(main())
