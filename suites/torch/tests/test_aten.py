"""Cases of `aten` on PyTorch's own CPU, and the rules for results that are not unique. Expected values are done by hand."""

import unittest

import torch

from tpu_parity_torch import aten, aten_rules, suite
from tpu_parity_torch.device import Device


def run(case_id, device=None):
    stages = []
    measured = aten.run(case_id, suite.Context(device or Device("cpu", "CPU"), stages.append))
    return measured, stages


class WrongDevice(Device):
    """CPU, but what comes to it is off by one."""

    def to(self, tensor):
        return tensor + 1


class Running(unittest.TestCase):
    def test_the_reference_is_in_double_and_starts_from_the_same_values(self):
        measured, stages = run("aten/exp/bf16/sample0/eager/forward")
        (result,) = measured.results
        self.assertEqual((result.reference.dtype, result.cpu.dtype), (torch.float64, torch.bfloat16))
        sample = aten.parse("aten/exp/bf16/sample0/eager/forward").sample.input
        self.assertTrue(torch.equal(result.reference, sample.double().exp()))
        self.assertEqual(stages[0], "run")
        self.assertIn("aten.exp", measured.operators)

    def test_backward_gives_the_gradients_of_what_has_one(self):
        measured, _ = run("aten/mul/f32/sample0/eager/backward")
        self.assertEqual([result.name for result in measured.results], ["gradient0", "gradient1"])

    def test_a_compiled_case_says_so_and_leaves_nothing_compiled(self):
        _, stages = run("aten/sin/f32/sample0/compile/forward")
        self.assertEqual(stages[:2], ["compile", "run"])
        self.assertEqual(len(torch._dynamo.eval_frame.cached_backends), 0)

    def test_integers_are_compared_with_integers(self):
        measured, _ = run("aten/add/i64/sample0/eager/forward")
        self.assertEqual(measured.results[0].reference.dtype, torch.int64)

    def test_integers_promoted_to_floats_are_compared_with_double(self):
        measured, _ = run("aten/sin/i64/sample0/eager/forward")
        self.assertEqual((measured.results[0].reference.dtype, measured.results[0].cpu.dtype), (torch.float64, torch.float32))

    def test_random_results_are_compared_by_shape(self):
        measured, _ = run("aten/bernoulli/f32/sample0/eager/forward")
        self.assertEqual(measured.figures["compared"], "shape")
        self.assertEqual(measured.results[0].device.dtype, torch.int64)

    def test_uninitialised_results_are_compared_by_shape(self):
        measured, _ = run("aten/empty_like/f32/sample0/eager/forward")
        self.assertEqual(measured.figures["compared"], "shape")

    def test_a_wrong_device_is_seen(self):
        measured, _ = run("aten/exp/f32/sample0/eager/forward", WrongDevice("cpu", "wrong"))
        self.assertFalse(torch.allclose(measured.results[0].cpu, measured.results[0].device))

    def test_an_unknown_case_is_skipped(self):
        for case_id in ("aten/no_such/f32/sample0/eager/forward", "aten/add/f32/sample999/eager/forward", "aten/add"):
            with self.assertRaises(suite.Skipped):
                run(case_id)


class Form(unittest.TestCase):
    case = aten.parse("aten/add/f32/sample0/eager/forward")

    def computed(self, *outputs, aliases=None):
        return aten.Computed(list(outputs), [], aliases or [[] for _ in outputs])

    def test_another_shape_type_number_or_alias_fails(self):
        want = self.computed(torch.zeros(2))
        for wrong in (
            self.computed(torch.zeros(3)),
            self.computed(torch.zeros(2, dtype=torch.float64)),
            self.computed(),
            self.computed(torch.zeros(2), aliases=[[0]]),
        ):
            with self.assertRaises(suite.Failed):
                aten.check_form(want, wrong, self.case)
        aten.check_form(want, self.computed(torch.ones(2)), self.case)


class Rules(unittest.TestCase):
    def agree(self, subject, one, other, arguments):
        first, second = (aten_rules.observables(subject, outputs, arguments) for outputs in (one, other))
        self.assertEqual(first.keys(), second.keys())
        return all(torch.allclose(first[name], second[name]) for name in first)

    def test_singular_vectors_may_change_sign_but_not_direction(self):
        u, s, vh = torch.linalg.svd(torch.tensor([[3.0, 1.0], [0.0, 2.0]]))
        self.assertTrue(self.agree("linalg.svd", [u, s, vh], [-u, s, -vh], None))
        self.assertFalse(self.agree("linalg.svd", [u, s, vh], [u.flip(-1), s, vh], None))

    def test_eigenvalues_have_no_order(self):
        one, other = torch.tensor([1.0 + 2j, 1.0 - 2j, 3.0]), torch.tensor([3.0, 1.0 - 2j, 1.0 + 2j])
        self.assertTrue(self.agree("linalg.eigvals", [one], [other], None))
        self.assertFalse(self.agree("linalg.eigvals", [one], [one * 2], None))

    def test_of_equal_elements_either_may_be_chosen(self):
        source = torch.tensor([[2.0, 5.0, 5.0]])
        for subject, args in (("max.reduction_with_dim", (1,)), ("kthvalue", (3, 1))):
            values, indices = torch.tensor([5.0]), torch.tensor([1])
            self.assertTrue(self.agree(subject, [values, indices], [values, indices + 1], (source, args, {})))
            self.assertFalse(self.agree(subject, [values, indices], [values, indices - 1], (source, args, {})))

    def test_a_reduction_of_everything_has_no_indices(self):
        self.assertEqual(list(aten_rules.observables("median", [torch.tensor(2.0)], None)), ["out"])


if __name__ == "__main__":
    unittest.main()
