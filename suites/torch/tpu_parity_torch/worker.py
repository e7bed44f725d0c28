"""The worker's side of the protocol: requests as JSON lines on standard input, answers as JSON lines on another descriptor.

Standard output and error belong to the libraries, which print there what they like. The process may die at any time; its
supervisor blames the case it died under. Nothing here knows what a case computes.
"""

import gc
import json
import os
import pathlib
import traceback
from collections.abc import Iterator
from typing import Any

from . import suite
from .device import Device, DeviceError, open_device, packages
from .exchange import write
from .outcome import classify

# Cases between two collections of garbage: reference cycles hold tensors of the device.
COLLECT_EVERY = 16


class ProtocolError(Exception):
    """A request that is none."""


class Worker:
    """Answers requests, one at a time."""

    def __init__(self, answers: int):
        self.answers = answers
        self.device: Device | None = None
        self.exchange = pathlib.Path()
        self.cases = 0
        self.last_stage: str | None = None

    def send(self, answer: dict[str, Any]) -> None:
        line = json.dumps(answer, allow_nan=False).encode() + b"\n"
        while line:
            line = line[os.write(self.answers, line) :]

    def stage(self, name: str) -> None:
        if name != self.last_stage:
            self.last_stage = name
            self.send({"stage": name})

    def answer(self, line: str) -> None:
        try:
            request = json.loads(line)
        except json.JSONDecodeError as error:
            raise ProtocolError(f"not JSON: {error}") from error
        match request:
            case {"hello": {"target": str(target), "exchange": str(exchange)}}:
                self.hello(target, exchange)
            case {"case": str(case_id)} if self.device is not None:
                self.send({"done": self.run(case_id, self.device)})
            case {"case": str(_)}:
                raise ProtocolError("a case before any hello")
            case _:
                raise ProtocolError("neither a hello nor a case")

    def hello(self, target: str, exchange: str) -> None:
        self.exchange = pathlib.Path(exchange)
        try:
            self.device = open_device(target, exchange)
        except DeviceError as error:
            self.send({"refused": str(error)})
            return
        self.send({"ready": {"packages": packages(), "device": self.device.name}})

    def run(self, case_id: str, device: Device) -> dict[str, Any]:
        self.last_stage = None
        context = suite.Context(device, self.stage)
        before = device.programs()
        try:
            try:
                module = suite.load(case_id.split("/", 1)[0])
            except (KeyError, ImportError) as error:
                raise suite.Skipped(f"no such suite here: {error}") from error
            measured = module.run(case_id, context)
            file, results = write(self.exchange, f"case{self.cases}", measured.results)
        except (Exception, SystemExit) as error:
            # What a library raises is the case's outcome. Its traceback is for whoever reads the process's output.
            traceback.print_exc()
            found = classify(error, self.last_stage)
            return {
                "outcome": found.outcome,
                "stage": found.stage,
                "message": found.message,
                "code": found.code,
                "compiles": difference(device.programs(), before),
            }
        finally:
            self.cases += 1
            if self.cases % COLLECT_EVERY == 0:
                gc.collect()
        return {
            "outcome": None,
            "stage": "compare",
            "message": None,
            "code": None,
            "seconds": measured.seconds,
            "compiles": measured.compiles if measured.compiles is not None else difference(device.programs(), before),
            "operators": measured.operators,
            "file": str(file),
            "results": results,
            "figures": measured.figures,
        }


def difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def private_input() -> Iterator[str]:
    """The lines of standard input, which no library can read any more."""
    with os.fdopen(os.dup(0), encoding="utf-8") as requests:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        yield from requests


def work(answers: int) -> int:
    """Answers requests until there are no more; gives the exit code."""
    os.set_inheritable(answers, False)
    worker = Worker(answers)
    for line in private_input():
        try:
            worker.answer(line)
        except ProtocolError as error:
            worker.send({"refused": str(error)})
            return 2
    return 0
