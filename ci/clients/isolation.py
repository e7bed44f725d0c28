"""Runs items one by one in a worker process that may die.

A plug-in can abort or hang on any program, so each item is handed to a worker process, and the one that a worker dies on or does
not finish in time is the one that is blamed; the rest continue in a fresh worker. What an item is and how it runs is the caller's.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

LAST_LINES = 12

# Stands for no item: the worker opens the plug-in and says so.
OPEN = "@open"


class Worker:
    """A process that answers each line of its standard input, an item's name, with one JSON object on a pipe of its own:
    standard output belongs to the client under test, which may write there as it likes."""

    def __init__(self, command, environment):
        self.stderr = tempfile.TemporaryFile()
        answers, theirs = os.pipe()
        self.process = subprocess.Popen(
            [*command, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=self.stderr,
            stderr=self.stderr,
            env=environment,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        self.answers = answers
        self.pending = b""

    def ask(self, name, timeout):
        """The answer, or None where the process died or the time was up."""
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        deadline = time.monotonic() + timeout
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            received = os.read(self.answers, 1 << 16)
            if not received:
                return None
            self.pending += received
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def end(self):
        """Ends the process. What it died of: a signal's name, an exit code, or None where it had to be killed."""
        died = None
        try:
            # The end of the pipe comes a little before the end of the process.
            code = self.process.wait(timeout=5)
            died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").splitlines()
        os.close(self.answers)
        return died, lines

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.answers)


def telling(lines):
    """The lines of a dead process that say most: the failed check and what stands around it, else the last ones."""
    for number, line in enumerate(lines):
        if "Check failed" in line or "panicked at" in line or "Fatal Python error" in line:
            return lines[number : number + 3]
    return lines[-LAST_LINES:]


def run(command, environment, names, timeout, first_timeout):
    """Yields (name, answer, seconds) for each name, in order; the answer of an item that killed its worker is
    {"outcome": "crash" | "timeout", "message": …}. `first_timeout` is for a worker's first item, which pays for the start."""
    worker = None
    try:
        for name in names:
            limit = timeout
            if worker is None:
                worker = Worker(command, environment)
                limit = first_timeout
            begun = time.monotonic()
            answer = worker.ask(name, limit)
            seconds = time.monotonic() - begun
            if answer is None:
                died, lines = worker.end()
                worker = None
                if died is None:
                    answer = {"outcome": "timeout", "message": f"no answer in {limit} s"}
                else:
                    answer = {"outcome": "crash", "message": "\n".join([died, *telling(lines)])}
            yield name, answer, seconds
    finally:
        if worker is not None:
            worker.close()


def cannot_open(command, environment, timeout):
    """Why the client cannot open the plug-in at all, or None: one message instead of one a check."""
    ((_, answer, _),) = run(command, environment, [OPEN], timeout, timeout)
    return None if answer["outcome"] == "open" else answer["message"]


def serve(open_plugin, run_item):
    """The worker's side: answers each name on standard input by `run_item(name)`, which returns what JSON can hold."""

    def answer(name):
        if name != OPEN:
            return run_item(name)
        try:
            open_plugin()
        except Exception as error:  # whatever it is, it is why
            return {"outcome": "error", "message": f"{type(error).__name__}: {error}"}
        return {"outcome": "open"}

    with os.fdopen(int(sys.argv[-1]), "w") as answers:
        for line in sys.stdin:
            answers.write(json.dumps(answer(line.strip())) + "\n")
            answers.flush()
