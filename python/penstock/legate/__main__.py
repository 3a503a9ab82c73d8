"""`python -m penstock.legate`."""

import sys

from penstock.legate.demo import main

sys.exit(main(sys.argv[1:]))
