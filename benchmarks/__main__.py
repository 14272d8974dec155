"""`python -m benchmarks`, from the root of a checkout: the same as `broadsheet bench`."""

import sys

from benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main())
