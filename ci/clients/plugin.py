"""Finds the virtual TPU's plug-in and the libraries beneath it, and makes the environment in which a client takes it for a TPU."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_arguments(parser):
    parser.add_argument(
        "--plugin",
        metavar="FILE",
        help="the plug-in; default: $TPU_PARITY_PLUGIN, else target/release/libtpu_parity.so",
    )
    parser.add_argument(
        "--generation",
        metavar="GEN[:SLICE]",
        help="what TPU to be, e.g. v6e:2x4; default: $TPU_PARITY_GENERATION, else %(default)s",
        default=os.environ.get("TPU_PARITY_GENERATION", "v6e:2x4"),
    )


def environment(arguments):
    """The environment for a client process; ends this one with exit code 2 where the plug-in is missing."""
    named = arguments.plugin or os.environ.get("TPU_PARITY_PLUGIN")
    file = pathlib.Path(named or ROOT / "target/release/libtpu_parity.so").resolve()
    if not file.is_file():
        remedy = "" if named else "; build it with `cargo build --release`, or name one with --plugin"
        print(f"error: {file} is not there{remedy}", file=sys.stderr)
        raise SystemExit(2)
    env = dict(os.environ)
    plugins = pathlib.Path(env.get("TPU_PARITY_PLUGINS", ROOT / "plugins"))
    env["TPU_LIBRARY_PATH"] = str(file)
    env["TPU_PARITY_GENERATION"] = arguments.generation
    env.setdefault("TPU_PARITY_CPU_PLUGIN", str(plugins / "xla-cpu/pjrt_c_api_cpu_plugin.so"))
    env.setdefault("TPU_PARITY_LIBTPU", str(plugins / "libtpu/libtpu.so"))
    # No metadata server to ask, and another process may have libtpu loaded.
    env.setdefault("TPU_SKIP_MDS_QUERY", "1")
    env.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    return env
