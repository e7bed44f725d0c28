"""Speaks the protocol of suites/torch/tpu_parity_torch without PyTorch, and misbehaves to order: a case's subject is its misdeed."""

import json
import os
import struct
import sys
import time

MISDEEDS = """good integers-off off overflow-as-cpu wrong-shape wrong-type prints abort exit exit-clean forks hang nonsense not-an-answer
says-pass no-file bad-file huge-file elsewhere lacks unsupported recompiles quiet large-figures""".split()


def listing(arguments):
    if "nowhere" in arguments:
        sys.exit("error: there is no suite nowhere; there are fake")
    for misdeed in os.environ.get("FAKE_CASES", " ".join(MISDEEDS)).split():
        print(json.dumps({"id": f"fake/{misdeed}/f32", "subject": misdeed, "suite": "fake", "about": f"is {misdeed}"}))
    print(json.dumps({"id": "fake/absent/f32", "about": "is not there", "skip": "there is no such thing"}))


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, bytes_) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def f32(*values, shape=None):
    return "F32", shape or [len(values)], struct.pack(f"<{len(values)}f", *values)


def f64(*values):
    return "F64", [len(values)], struct.pack(f"<{len(values)}d", *values)


def i64(*values):
    return "I64", [len(values)], struct.pack(f"<{len(values)}q", *values)


def three(reference, cpu, device):
    return {"reference.out": reference, "cpu.out": cpu, "device.out": device}


ABOUT_A_THIRD = 0.3333333432674408
TENSORS = {
    "off": three(f64(1 / 3, 2.0), f32(ABOUT_A_THIRD, 2.0), f32(ABOUT_A_THIRD, 2.5)),
    "integers-off": three(i64(1, 2**60), i64(1, 2**60), i64(1, 2**60 + 1)),
    "overflow-as-cpu": three(f64(1.0, 1e30), f32(1.0, float("inf")), f32(1.0, float("inf"))),
    "wrong-shape": three(f64(1.0, 2.0), f32(1.0, 2.0), f32(1.0, 2.0, shape=[2, 1])),
    "wrong-type": three(f64(1.0, 2.0), f32(1.0, 2.0), i64(1, 2)),
    "lacks": {"reference.out": f64(1.0), "cpu.out": f32(1.0)},
}
GOOD = three(f64(1 / 3, 2.0), f32(ABOUT_A_THIRD, 2.0), f32(ABOUT_A_THIRD, 2.0))


class Worker:
    def __init__(self, answers):
        self.answers = answers

    def say(self, answer):
        os.write(self.answers, answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n")

    def done(self, **more):
        self.say({"done": {"outcome": None, "stage": "compare", "message": None, "code": None, **more}})

    def run(self, misdeed, exchange):
        self.say({"stage": "lower"})
        self.say({"stage": "run"})
        file = f"{exchange}/case.safetensors"
        results = [{"name": "out", "integer": False}]
        good = {"seconds": 0.25, "compiles": 1, "operators": ["aten.add", "aten.mul"], "file": file, "results": results, "figures": {}}
        match misdeed:
            case "abort":
                print("F1130 12:00:00.123456 7 tensor.cc:12] Check failed: has_layout", file=sys.stderr, flush=True)
                os.abort()
            case "exit":
                print("ImportError: no module named x", file=sys.stderr, flush=True)
                os._exit(3)
            case "exit-clean":
                os._exit(0)
            case "forks":
                # The child holds the pipe open.
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(4)
            case "hang":
                time.sleep(600)
            case "nonsense":
                self.say(b"Segmentation fault\n")
            case "not-an-answer":
                self.say({"ready": {"packages": []}})
            case "says-pass":
                self.done(outcome="pass")
            case "no-file":
                self.done(**{**good, "file": f"{exchange}/none"})
                return
            case "bad-file":
                with open(file, "wb") as out:
                    out.write(b"\xff" * 64)
                self.done(**good)
                return
            case "huge-file":
                with open(file, "wb") as out:
                    out.truncate(3 << 30)
                self.done(**good)
                return
            case "elsewhere":
                self.done(**{**good, "file": os.environ["FAKE_ELSEWHERE"]})
                return
            case "unsupported":
                words = "operator 'aten::i0' is not\nimplemented for TPU"
                self.done(outcome="unsupported", stage="lower", message=words, code="NotImplementedError")
                return
            case "recompiles":
                self.done(outcome="fail", message="a second call with the same shapes compiled again", compiles=2)
                return
            case "quiet":
                self.done(stage="run", figures={"losses": [1.5, 1.25]})
                return
            case "large-figures":
                good["figures"] = {"losses": [0.5] * 10000}
            case "prints":
                print("{\"done\":{\"outcome\":\"fail\"}}", flush=True)
                os.write(1, b"\xff\x00 garbage without an end")
        with open(file, "wb") as out:
            out.write(safetensors(TENSORS.get(misdeed, GOOD)))
        self.done(**good)

    def work(self):
        exchange = None
        for line in sys.stdin:
            request = json.loads(line)
            if hello := request.get("hello"):
                exchange = hello["exchange"]
                match os.environ.get("FAKE_HELLO"):
                    case "refuses":
                        self.say({"refused": "torch_tpu 9.9 has moved its\nprivate entry"})
                        return
                    case "dies":
                        print("ModuleNotFoundError: No module named 'torch'", file=sys.stderr, flush=True)
                        os._exit(1)
                self.say({"ready": {"packages": ["torch 2.15.0", "torch_tpu 0.2.0"], "device": "a fake"}})
            else:
                self.run(request["case"].split("/")[1], exchange)


if __name__ == "__main__":
    if sys.argv[1] == "list":
        listing(sys.argv[2:])
    else:
        Worker(int(sys.argv[sys.argv.index("--answers") + 1])).work()
