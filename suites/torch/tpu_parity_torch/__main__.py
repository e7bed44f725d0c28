"""`python -m tpu_parity_torch list|work`: the package's command line."""

import argparse
import json
import os
import sys


def listing(names: list[str], samples: int) -> int:
    # The lines alone go to standard output: what libraries print there goes to standard error.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from . import suite

    with lines:
        for name in names or suite.SUITES:
            try:
                module = suite.load(name)
            except KeyError:
                print(f"error: there is no suite {name}; there are {', '.join(suite.SUITES)}", file=sys.stderr)
                return 2
            except ImportError as error:
                print(f"error: {name}: {error}; ci/setup --torch installs what the suites need", file=sys.stderr)
                return 2
            for case in module.cases(suite.Options(samples)):
                lines.write(json.dumps(case.to_json()) + "\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tpu_parity_torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_list = commands.add_parser("list", help="print every case as a line of JSON; opens no device")
    of_list.add_argument("--suite", action="append", default=[], metavar="NAME", help="this suite alone; may be repeated")
    of_list.add_argument("--samples", type=int, default=1, metavar="N", help="samples an operator and element type; default 1")
    of_work = commands.add_parser("work", help="run cases as standard input asks for them")
    of_work.add_argument("--answers", type=int, required=True, metavar="FD", help="the descriptor to answer on")
    arguments = parser.parse_args()
    # TorchTPU, loaded by itself, would look for a TPU; device.py opens it when a case needs it.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if arguments.command == "list":
        if arguments.samples < 1:
            parser.error("--samples is at least 1")
        return listing(arguments.suite, arguments.samples)
    from .worker import work

    return work(arguments.answers)


if __name__ == "__main__":
    sys.exit(main())
