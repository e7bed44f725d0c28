"""What a listing promises its reader."""

import re
import unittest

from tpu_parity_torch import aten, suite

SHAPE = re.compile(r"[a-z0-9._-]+(/[a-z0-9._-]+)+")


class Listing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = list(aten.cases(suite.Options(samples=1)))

    def test_has_at_least_three_thousand_cases_that_can_be_made(self):
        self.assertGreater(sum(case.skip is None for case in self.cases), 3000)

    def test_ids_are_unique_and_well_formed(self):
        ids = [case.id for case in self.cases]
        self.assertEqual(len(ids), len(set(ids)))
        for name in ids:
            self.assertTrue(SHAPE.fullmatch(name), name)
            self.assertTrue(name.startswith("aten/"), name)

    def test_operators_whose_names_differ_in_case_alone_are_told_apart(self):
        subjects = {case.subject for case in self.cases}
        self.assertLessEqual({"t", "tensor.t", "tensor.h", "tensor.mt"}, subjects)
        self.assertEqual(len(aten.operators()), len(aten.common_methods_invocations.op_db))

    def test_integers_have_no_backward(self):
        backward = {case.id.split("/")[2] for case in self.cases if case.id.endswith("/backward")}
        self.assertEqual(backward, {"f32", "bf16", "f16", "c64"})

    def test_more_samples_leave_the_first_ones_ids_alone(self):
        more = [case.id for case in aten._cases_of("addmm", aten.operators()["addmm"], "f32", "forward", 3)]
        self.assertEqual(more[:2], ["aten/addmm/f32/sample0/eager/forward", "aten/addmm/f32/sample0/compile/forward"])
        self.assertEqual(len(more), 6)

    def test_a_case_that_cannot_be_made_is_listed_with_the_reason(self):
        skipped = {case.subject: case.skip for case in self.cases if case.skip}
        self.assertIn("CUDA", skipped["jiterator_unary"])
        lines = [case.to_json() for case in self.cases if case.subject == "jiterator_unary"]
        self.assertTrue(all("CUDA" in line["skip"] for line in lines))


class Samples(unittest.TestCase):
    def test_are_the_same_each_time_and_differ_between_operators(self):
        add, sub = (aten.operators()[name] for name in ("add", "sub"))
        first, again, other = (aten.samples(op, aten.torch.float32, False, 1)[0].input for op in (add, add, sub))
        self.assertTrue(first.equal(again))
        self.assertFalse(first.equal(other))


if __name__ == "__main__":
    unittest.main()
