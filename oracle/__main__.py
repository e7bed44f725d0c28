"""`python -m oracle`: a worker; see `oracle.worker`."""

import sys

from .worker import ARITHMETICS, serve

if __name__ == "__main__":
    arithmetic, packages = ARITHMETICS[sys.argv[1] if len(sys.argv) > 1 else "extended"]
    serve(arithmetic(), packages)
