"""The protocol, from outside: a worker process is spoken to as its supervisor does."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from safetensors.torch import load_file

from tpu_parity_torch.worker import ProtocolError, Worker

ROOT = pathlib.Path(__file__).resolve().parents[1]


def converse(requests):
    """(Answers, exit code) of a worker that is told these lines."""
    answers, theirs = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "tpu_parity_torch", "work", "--answers", str(theirs)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs],
    )
    os.close(theirs)
    process.stdin.write("".join(line + "\n" for line in requests).encode())
    process.stdin.close()
    with os.fdopen(answers) as lines:
        heard = [json.loads(line) for line in lines]
    return heard, process.wait()


class Protocol(unittest.TestCase):
    def test_hello_then_cases(self):
        with tempfile.TemporaryDirectory() as exchange:
            requests = [
                {"hello": {"target": "cpu", "exchange": exchange}},
                {"case": "aten/addmm/f32/sample0/eager/forward"},
                {"case": "aten/fft.fft/c64/sample0/eager/forward"},
                {"case": "aten/no_such_operator/f32/sample0/eager/forward"},
                {"case": "no_such_suite/x"},
            ]
            ready, *heard = converse(map(json.dumps, requests))[0]
            self.assertTrue(ready["ready"]["packages"][0].startswith("torch "))
            self.assertEqual(heard[0], {"stage": "run"})
            done = [answer["done"] for answer in heard if "done" in answer]
            self.assertEqual([answer["outcome"] for answer in done], [None, None, "skipped", "skipped"])
            self.assertEqual(done[0]["results"], [{"name": "out", "integer": False}])
            self.assertIn("aten.addmm", done[0]["operators"])
            tensors = load_file(done[1]["file"])
            self.assertEqual(set(tensors), {"reference.out", "cpu.out", "device.out"})
            # Complex numbers come as pairs.
            self.assertEqual(tensors["reference.out"].shape[-1], 2)

    def test_nonsense_is_refused_and_ends_the_worker(self):
        heard, code = converse(["{"])
        self.assertEqual(list(heard[0]), ["refused"])
        self.assertEqual(code, 2)

    def test_what_is_no_request_is_told_from_one(self):
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        for line in ("{", "[]", '{"case": "aten/add/f32/sample0/eager/forward"}', '{"hello": {"target": 1}}'):
            with self.assertRaises(ProtocolError):
                Worker(writing).answer(line)

    def test_a_virtual_tpu_without_a_plug_in_is_refused(self):
        before = os.environ.pop("TPU_LIBRARY_PATH", None)
        try:
            heard, _ = converse([json.dumps({"hello": {"target": "vtpu-v6e", "exchange": "/tmp"}})])
        finally:
            if before is not None:
                os.environ["TPU_LIBRARY_PATH"] = before
        self.assertIn("TPU_LIBRARY_PATH", heard[0]["refused"])


if __name__ == "__main__":
    unittest.main()
