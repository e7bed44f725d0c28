#!/usr/bin/env python3
"""Runs JAX, unmodified, on the virtual TPU, and compares what it computes with JAX on CPU.

    ci/clients/setup jax
    .tpu-parity/clients/jax/bin/python ci/clients/jax_on_virtual_tpu.py [--only GLOB] [--json FILE]

One line a check on standard output: `ok` or `FAIL`, and the largest error over its bound. Each check runs in a worker process: one
that kills the worker is a failure of its own. Exit code: 0 all agree, 1 some do not, 2 wrong use,
3 JAX cannot open the plug-in.
"""

import argparse
import fnmatch
import importlib
import json
import os
import pathlib
import sys
import traceback

import isolation
import plugin


def load():
    """Registers the checks, which importing them does."""
    for module in ("jax_checks", "jax_decompositions", "jax_devices"):
        importlib.import_module(module)


def serve():
    import jax
    from jax_compare import CHECKS, Disagreement

    load()

    def run(name):
        try:
            over = CHECKS[name]()
        except Disagreement as error:
            return {"outcome": "fail", "message": str(error)}
        except Exception as error:  # whatever a check raises is its outcome
            return {"outcome": "error", "message": f"{type(error).__name__}: {error}", "where": traceback.format_exc(limit=-3)}
        finally:
            jax.clear_caches()
        return {"outcome": "ok" if over <= 1 else "fail", "error_over_bound": over, "message": "" if over <= 1 else "outside its bound"}

    isolation.serve(lambda: jax.devices("tpu"), run)


def names():
    """The checks' names, without initialising JAX's backends."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jax_compare import CHECKS

    load()
    return list(CHECKS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    plugin.add_arguments(parser)
    parser.add_argument("--only", metavar="GLOB", action="append", help="checks to run; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the checks' names and end")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=120, help="for one check; default %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write the results here as well")
    arguments = parser.parse_args()
    chosen = [n for n in names() if not arguments.only or any(fnmatch.fnmatchcase(n, glob) for glob in arguments.only)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    if not chosen:
        parser.error("no check has such a name")
    environment = plugin.environment(arguments)
    # Without a TPU on the PCI bus JAX tries CPU alone, unless it is told. CPU is there for the references.
    environment["JAX_PLATFORMS"] = "tpu,cpu"
    command = [sys.executable, os.path.abspath(__file__), "--worker"]
    if why := isolation.cannot_open(command, environment, arguments.timeout + 60):
        print(f"error: JAX cannot open the plug-in: {why}", file=sys.stderr)
        return 3
    results = []
    for name, answer, seconds in isolation.run(command, environment, chosen, arguments.timeout, arguments.timeout + 60):
        results.append({"name": name, "seconds": round(seconds, 3), **answer})
        over = answer.get("error_over_bound")
        figure = "" if over is None else f"{over:.3g}"
        print(f"{'ok  ' if answer['outcome'] == 'ok' else 'FAIL'} {name:42} {figure:>9} {seconds:7.2f} s", flush=True)
        if answer["outcome"] != "ok":
            print("       " + f"{answer['outcome']}: {answer['message']}".replace("\n", "\n       "), flush=True)
    count = {o: sum(r["outcome"] == o for r in results) for o in ("ok", "fail", "error", "crash", "timeout")}
    print(f"\n{count['ok']} of {len(results)} agree" + "".join(f", {n} {o}" for o, n in count.items() if n and o != "ok"))
    if arguments.json:
        document = {"schema": "tpu-parity/jax-client/1", "generation": arguments.generation, "totals": count, "checks": results}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0 if count["ok"] == len(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        serve()
    else:
        sys.exit(main())
