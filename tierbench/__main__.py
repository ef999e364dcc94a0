"""`python -m tierbench` is the same as the command `tierbench`."""

import sys

from tierbench.submit.cli import main

sys.exit(main())
