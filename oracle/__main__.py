"""`python -m oracle [extended|torch]`: a worker; see `oracle.worker`.

The environment of PyTorch has no jaxlib. The one of `ci/clients/setup oracle` beside it has, for the same Python.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "extended"
    # Other devices that PyTorch knows of are none of this one's business.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if find_spec("jaxlib") is None:
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        sys.path.append(str(Path(sys.prefix).parent / "oracle" / "lib" / version / "site-packages"))
    from .worker import ARITHMETICS, serve

    arithmetic, packages = ARITHMETICS[name]
    serve(arithmetic(), packages)


if __name__ == "__main__":
    main()
