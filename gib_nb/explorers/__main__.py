import sys

from gib_nb.explorers.app import build_main

sys.exit(build_main())
