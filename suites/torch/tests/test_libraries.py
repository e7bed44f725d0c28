"""The suites of the libraries above PyTorch: what a listing has, and what their common machinery refuses."""

import re
import unittest

import torch

from tpu_parity_torch import recompiles, suite, trial
from tpu_parity_torch.diffusers import models, pipelines, schedulers

NAMES = ("diffusers", "peft", "accelerate", "trl", "recompiles", "kernels")
SHAPE = re.compile(r"[a-z0-9._-]+(/[a-z0-9._-]+)+")


class Listing(unittest.TestCase):
    def test_ids_are_unique_well_formed_and_of_their_suite(self):
        for name in NAMES:
            with self.subTest(suite=name):
                ids = [case.id for case in suite.load(name).cases(suite.Options())]
                self.assertTrue(ids)
                self.assertEqual(len(ids), len(set(ids)))
                for case_id in ids:
                    self.assertTrue(SHAPE.fullmatch(case_id), case_id)
                    self.assertEqual(case_id.split("/")[0], name)

    def test_schedulers_that_cannot_be_stepped_are_listed_with_the_reason(self):
        skipped = {case.subject: case.skip for case in schedulers.cases(suite.Options()) if case.skip}
        self.assertIn("sigma_hat", skipped["scheduler.karrasve"])
        self.assertNotIn("scheduler.ddim", skipped)

    def test_the_models_that_the_issue_names_are_there(self):
        named = {"UNet2DModel", "UNet2DConditionModel", "DiTTransformer2DModel", "SD3Transformer2DModel", "ControlNetModel"}
        named |= {"FluxTransformer2DModel", "QwenImageTransformer2DModel", "AutoencoderKL"}
        self.assertLessEqual(named, {model.name for model in models.MODELS.values()})
        self.assertLessEqual({"stable-diffusion-3", "flux", "qwen-image", "controlnet"}, set(pipelines.RECIPES))

    def test_an_unknown_id_is_skipped(self):
        for name in NAMES:
            with self.subTest(suite=name), self.assertRaises(suite.Skipped):
                suite.load(name).run(f"{name}/nothing/of-the-kind", suite.Context(None, print))  # type: ignore[arg-type]


class Buckets(unittest.TestCase):
    def test_lengths_are_rounded_up(self):
        self.assertEqual([recompiles.power_of_two(n) for n in (3, 4, 5, 33, 59)], [4, 4, 8, 64, 64])
        self.assertEqual([recompiles.given(n) for n in (3, 16, 17, 48, 59)], [16, 16, 32, 48, 64])

    def test_there_are_fifty_different_lengths(self):
        self.assertEqual(len(set(recompiles.lengths())), 50)


class Machinery(unittest.TestCase):
    def test_numbers_drawn_for_the_reference_are_those_of_f32(self):
        torch.default_generator.manual_seed(5)
        single = torch.randn(4)
        torch.default_generator.manual_seed(5)
        with trial.drawn_in_single():
            double = torch.randn(4, dtype=torch.float64)
        self.assertEqual(double.dtype, torch.float64)
        self.assertTrue(torch.equal(double, single.double()))

    def test_a_second_compilation_is_refused(self):
        trial.refuse_recompile((1, 2), (1, 2))
        with self.assertRaisesRegex(suite.Failed, "0 graphs, 1 programs"):
            trial.refuse_recompile((1, 2), (1, 3))

    def test_results_of_another_form_are_refused(self):
        one = {"out": torch.zeros(2)}
        with self.assertRaisesRegex(suite.Failed, r"float32\[3\] instead of float32\[2\]"):
            trial.joined(one, one, {"out": torch.zeros(3)})
        with self.assertRaisesRegex(suite.Failed, "bfloat16"):
            trial.joined(one, one, {"out": torch.zeros(2, dtype=torch.bfloat16)})

    def test_gradients_of_a_square_are_known(self):
        layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 3.0)
        found = trial.gradients(layer, {"input": torch.tensor([[2.0]])}, trial.call_by_name)
        # d/dw (2w)^2 = 8w
        self.assertEqual(found["out0"].tolist(), [[6.0]])
        self.assertEqual(found["gradients"].tolist(), [24.0])


if __name__ == "__main__":
    unittest.main()
