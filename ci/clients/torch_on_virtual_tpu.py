#!/usr/bin/env python3
"""Runs TorchTPU, unmodified, on the virtual TPU, and compares what it computes with PyTorch on CPU.

    ci/clients/setup torch
    .tpu-parity/clients/torch/bin/python ci/clients/torch_on_virtual_tpu.py [--every N] [--only GLOB] [--json FILE]

Two parts: operators of PyTorch's own table (every N-th, its first f32 sample, eager), and a small Llama (eager, compiled, a new
shape, generate; at matmul precision "highest" and at "medium", TorchTPU's default). Each runs in a worker process: one that kills
the worker is an outcome of its own.

Exit code: 0 as expected, 1 not, 2 wrong use, 3 TorchTPU cannot open the plug-in. Expected is that everything agrees, with two exceptions: an operator that TorchTPU
says it does not implement is TorchTPU's own affair, and torch_known.toml lists what else is known not to agree, and why.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import sys
import tomllib

import isolation
import plugin

HERE = pathlib.Path(__file__).resolve().parent
OUTCOMES = ("agrees", "differs", "not implemented", "error", "crash", "timeout", "skipped")


def serve():
    import torch_checks

    def run(name):
        part, _, rest = name.partition(":")
        return torch_checks.operator(rest) if part == "op" else torch_checks.model_step(rest)

    isolation.serve(torch_checks.open_device, run)


def names(every):
    """Every N-th operator's name and the model's steps, from PyTorch alone: TorchTPU stays unloaded."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch_checks
    from torch.testing._internal.common_methods_invocations import op_db

    operators = ["op:" + torch_checks.name_of(op) for op in op_db[::every]]
    return operators + [f"llama:{p}/{s}" for p in torch_checks.PRECISIONS for s in torch_checks.STEPS]


def as_expected(name, outcome):
    return outcome == "agrees" or name.startswith("op:") and outcome in ("not implemented", "skipped")


def known():
    return tomllib.loads((HERE / "torch_known.toml").read_text()).get("known", [])


def reason_of(entries, name, answer):
    """Why an outcome is known, or None."""
    for entry in entries:
        if entry["name"] == name and entry["outcome"] == answer["outcome"] and entry["message"] in answer["message"]:
            return entry["reason"]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    plugin.add_arguments(parser)
    parser.add_argument("--every", metavar="N", type=int, default=6, help="every N-th operator; default %(default)s")
    parser.add_argument("--only", metavar="GLOB", action="append", help="e.g. 'op:*', 'llama:*', 'op:cumsum'; may be repeated")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=180, help="for one item; default %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write the results here as well")
    arguments = parser.parse_args()
    if arguments.every < 1:
        parser.error("--every is at least 1")
    environment = plugin.environment(arguments)
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    chosen = [
        name
        for name in names(arguments.every)
        if not arguments.only or any(fnmatch.fnmatchcase(name, glob) for glob in arguments.only)
    ]
    if not chosen:
        parser.error("nothing has such a name")
    excused = known()
    command = [sys.executable, os.path.abspath(__file__), "--worker"]
    if why := isolation.cannot_open(command, environment, arguments.timeout + 120):
        print(f"error: TorchTPU cannot open the plug-in: {why}", file=sys.stderr)
        return 3
    results, unexpected = [], 0
    # Loading torch, TorchTPU and PyTorch's table of operators takes its time.
    for name, answer, seconds in isolation.run(command, environment, chosen, arguments.timeout, arguments.timeout + 120):
        reason = reason_of(excused, name, answer)
        expected = as_expected(name, answer["outcome"])
        unexpected += not expected and reason is None
        results.append({"name": name, "seconds": round(seconds, 3), "known": reason, **answer})
        mark = "ok  " if expected else "known" if reason else "FAIL"
        over = answer.get("error_over_bound")
        tpu = answer.get("tpu_seconds")
        print(
            f"{mark:5} {name:44} {answer['outcome']:15} {'' if over is None else f'{over:.3g}':>9} {'' if tpu is None else f'{tpu:8.4f} s'}",
            flush=True,
        )
        if answer["outcome"] != "agrees" or name.startswith("llama:"):
            print("        " + (reason or answer["message"]).replace("\n", "\n        "), flush=True)
    totals = {}
    for part in ("op", "llama"):
        of_part = [r["outcome"] for r in results if r["name"].startswith(part + ":")]
        totals[part] = dict(collections.Counter(of_part))
        if of_part:
            print(f"\n{part}: {len(of_part)}: " + ", ".join(f"{totals[part][o]} {o}" for o in OUTCOMES if o in totals[part]))
    print(f"{unexpected} unexpected")
    agreeing = {r["name"] for r in results if r["outcome"] == "agrees"}
    gone = [entry["name"] for entry in excused if entry["name"] in agreeing]
    if gone:
        print("agree now, and should leave torch_known.toml: " + ", ".join(gone))
    if arguments.json:
        document = {"schema": "tpu-parity/torch-client/1", "generation": arguments.generation, "totals": totals, "unexpected": unexpected, "results": results}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    return 1 if unexpected else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        serve()
    else:
        sys.exit(main())
