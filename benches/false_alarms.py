#!/usr/bin/env python3
"""Runs every case on implementations that are to agree, and writes how many failures nothing explains: reports/false-alarms.md.

    benches/false_alarms.py [--store DIR] [--reuse] [--binary FILE] [--out FILE]

Three builds of XLA CPU at optimization levels 0 and 3, each with its default mathematics and with all of fast-math off; the virtual
TPU, whose matrix products round as a TPU's do; and PyTorch on CPU. A failure is explained where suites/expectations/ has it with its
reason. `--reuse` takes the runs that an earlier call left in the store. Exit code 1 if a failure is unexplained.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPU = ("cpu", "plugin:xla-cpu-0.106", "plugin:xla-cpu-0.81")
OFF = ("xla_cpu_enable_fast_math=false", "xla_cpu_enable_fast_min_max=false")


def settings():
    """(label, what it is, targets, compiler flags)"""
    for level in (0, 3):
        flag = f"xla_backend_optimization_level={level}"
        yield f"fa-{level}-def", f"optimization level {level}", CPU, (flag,)
        yield f"fa-{level}-off", f"optimization level {level}, fast-math off", CPU, (flag, *OFF)
    yield "fa-vtpu", "as the TPU compiler compiles it, matrix products of bf16 pieces", ("vtpu-v6e",), ()
    yield "fa-torch", "operator by operator in its own types", ("torch-cpu",), ()


def run(arguments, label, targets, flags):
    command = [arguments.binary, "run", "--label", label, "--store", arguments.store]
    command += [word for target in targets for word in ("--target", target)]
    command += [word for flag in flags for word in ("--flag", flag)]
    code = subprocess.run(command, cwd=ROOT).returncode
    if code > 1:
        sys.exit(f"error: {' '.join(command)} ended with {code}")


def report(arguments, label):
    command = [arguments.binary, "report", label, "--store", arguments.store, "--format", "json"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=str(ROOT / ".tpu-parity/false-alarms"), help="where the runs are kept")
    parser.add_argument("--reuse", action="store_true", help="take the runs that are there, make those that are not")
    parser.add_argument("--binary", default=str(ROOT / "target/release/tpu-parity"))
    parser.add_argument("--out", default=str(ROOT / "reports/false-alarms.md"))
    arguments = parser.parse_args()
    rows, unexplained, days = [], [], set()
    for label, what, targets, flags in settings():
        document = None
        if arguments.reuse:
            try:
                document = report(arguments, label)
            except subprocess.CalledProcessError:
                pass
        if document is None:
            run(arguments, label, targets, flags)
            document = report(arguments, label)
        days.add(document["run"]["started"][:10])
        failures = [failure for kind in ("regressed", "new-failure", "missing") for failure in document["verdicts"][kind]]
        for target in document["targets"]:
            totals = target["totals"]
            own = [f for f in failures if f["target"] == target["target"]]
            known = sum(len(v["cases"]) for v in document["verdicts"]["known"] if v["target"] == target["target"])
            rows.append(
                f"| {target['target']} | {what} | {totals['cases'] - totals['skipped']} | {totals['pass']} | {known} | {len(own)} |"
            )
            unexplained += [f"- `{f['case']}` on {f['target']}, {what}: {f.get('message')}" for f in own]
    text = f"""# False alarms

Every case of the suites, run on {', '.join(sorted(days))} on implementations of the same operators that none of our tolerances was made
with in mind, by `benches/false_alarms.py`. A failure is *known* where `suites/expectations/` has it, with the reason, which is the
implementation's fault or limit and not a tolerance's; any other is a false alarm or an unexamined fault. The levels and fast-math
are XLA's flags `xla_backend_optimization_level`, `xla_cpu_enable_fast_math` and `xla_cpu_enable_fast_min_max`, given with
`tpu-parity run --flag`. Cases that an implementation cannot take (more devices than it has; of PyTorch, operators that it has no
counterpart of) are left out.

| target | setting | cases | pass | known failures | unexplained |
| --- | --- | --: | --: | --: | --: |
{chr(10).join(rows)}

"""
    text += "Unexplained:\n\n" + "\n".join(unexplained) + "\n" if unexplained else "None is unexplained.\n"
    pathlib.Path(arguments.out).write_text(text)
    print(text, end="")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
