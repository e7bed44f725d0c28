"""Whose failure an exception is, from what TorchTPU 0.2.0 and the virtual TPU have said."""

import unittest

import torch

from tpu_parity_torch.outcome import classify
from tpu_parity_torch.suite import Failed, Skipped


class Classification(unittest.TestCase):
    def outcome(self, error, stage="run"):
        found = classify(error, stage)
        return found.outcome, found.stage

    def test_an_operator_that_torchtpu_does_not_have_is_unsupported_and_was_not_lowered(self):
        error = NotImplementedError("operator 'aten::i0.out' is not implemented for TPU")
        self.assertEqual(self.outcome(error), ("unsupported", "lower"))

    def test_an_ordinary_exception_is_an_error_where_it_was_raised(self):
        self.assertEqual(self.outcome(ValueError("expected 3 dimensions")), ("error", "run"))
        self.assertEqual(self.outcome(ValueError("expected 3 dimensions"), None), ("error", None))

    def test_exhausted_memory_is_out_of_memory(self):
        error = RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")
        self.assertEqual(self.outcome(error)[0], "oom")

    def test_a_compilers_refusal_is_at_compile(self):
        error = RuntimeError("INTERNAL: Mosaic failed to compile TPU kernel: bad layout")
        self.assertEqual(self.outcome(error), ("error", "compile"))

    def test_what_dynamo_wraps_speaks(self):
        class Wrapped(torch._dynamo.exc.TorchDynamoException):
            inner_exception = NotImplementedError("operator 'aten::foo' is not implemented for TPU")

        found = classify(Wrapped("backend='tpu' raised"), "compile")
        self.assertEqual((found.outcome, found.code), ("unsupported", "NotImplementedError"))

    def test_a_suites_own_words(self):
        self.assertEqual(self.outcome(Skipped("no sample")), ("skipped", "run"))
        self.assertEqual(self.outcome(Failed("bool[3] instead of float32[3]")), ("fail", "compare"))

    def test_a_message_ends_where_the_tracer_begins_to_tell_of_the_users_code(self):
        error = RuntimeError('cannot record\n\nfrom user code:\n  File "here.py", line 1, in call\n    return f(x)')
        self.assertEqual(classify(error, "run").message, "cannot record")

    def test_a_message_is_one_line_of_bounded_length(self):
        message = classify(RuntimeError("one\n\ntwo\nthree" + "x" * 9999), "run").message
        self.assertEqual(message, "one two")
        self.assertLessEqual(len(classify(RuntimeError("x" * 9999), "run").message), 600)
        self.assertEqual(classify(RuntimeError(), "run").message, "RuntimeError")


if __name__ == "__main__":
    unittest.main()
