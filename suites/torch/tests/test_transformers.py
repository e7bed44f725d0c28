"""The suite `transformers`: its listing, the rules that make models small, and that the committed table is current."""

import importlib.util
import json
import os
import re
import unittest
from types import SimpleNamespace

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from tpu_parity_torch import suite
from tpu_parity_torch.device import Device
from tpu_parity_torch.suite import Context, Skipped
from tpu_parity_torch.transformers import case as suite_case
from tpu_parity_torch.transformers import inputs, models, outputs, small, steps

SHAPE = re.compile(r"transformers/[a-z0-9._-]+/[a-z-]+/(f32|bf16)/(eager|compile)")
# Named by the suite's promise, with the kinds of Gemma's mixture of experts.
PROMISED = (
    "llama", "qwen3", "qwen3_moe", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gemma4-moe", "gemma4_text-moe",
    "mistral", "mixtral", "gpt2", "bert", "t5", "vit", "clip", "whisper",
)  # fmt: skip
HAVE_LIBRARY = importlib.util.find_spec("transformers") is not None


class Listing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = list(suite_case.cases(suite.Options()))

    def test_ids_are_unique_and_well_formed(self):
        ids = [case.id for case in self.cases]
        self.assertEqual(len(ids), len(set(ids)))
        for name in ids:
            self.assertTrue(SHAPE.fullmatch(name), name)

    def test_promised_models_have_every_case(self):
        runnable = {case.id for case in self.cases if case.skip is None}
        for subject in PROMISED:
            for mode in ("f32/eager", "f32/compile", "bf16/eager"):
                self.assertIn(f"transformers/{subject}/forward/{mode}", runnable)
            for step in ("loss-backward", "optimizer-step", "save-load"):
                self.assertIn(f"transformers/{subject}/{step}/f32/eager", runnable)
        for subject in (
            "llama",
            "qwen3",
            "qwen3_moe",
            "gemma3_text",
            "gemma4_text",
            "gemma4_text-moe",
            "mistral",
            "mixtral",
            "gpt2",
        ):
            self.assertIn(f"transformers/{subject}/generate/f32/eager", runnable)

    def test_at_least_150_types_have_a_forward_pass(self):
        self.assertGreaterEqual(len(models.made()), 150)

    def test_a_type_that_cannot_be_made_is_one_case_with_the_reason(self):
        for subject, reason in models.unmade().items():
            mine = [case for case in self.cases if case.subject == subject]
            self.assertEqual(len(mine), 1)
            self.assertIn(reason, mine[0].skip)

    def test_no_model_is_both_made_and_not(self):
        self.assertFalse(models.made().keys() & models.unmade().keys())

    def test_what_is_no_case_is_skipped(self):
        for name in (
            "transformers/llama/forward/f32",
            "transformers/no_model/forward/f32/eager",
            "transformers/bert/generate/f32/eager",
        ):
            with self.assertRaises(Skipped):
                suite_case.parse(name)


class Rules(unittest.TestCase):
    def test_names_say_how_small_a_value_becomes(self):
        every = small.GROUPS
        for name, value, want in (
            ("hidden_size", 4096, 64),
            ("num_hidden_layers", 32, 2),
            ("num_attention_heads", 32, 4),
            ("num_key_value_heads", 8, 2),
            ("vocab_size", 32000, 128),
            ("num_local_experts", 8, 4),
            ("image_size", 224, 64),
            ("patch_size", 14, 16),
            ("patch_size", 4, 4),
            ("image_token_id", 151655, 120),
            ("pad_token_id", 50256, 0),
            # The smaller of the two, so that a small default stays.
            ("num_hidden_layers", 1, 1),
            ("hidden_sizes", (256, 512, 1024, 2048), (16, 32, 64, 128)),
            ("num_heads", (3, 6, 12, 24), (1, 2, 4, 8)),
            ("kernel_sizes", (3, 7, 11), (3, 7, 11)),
            ("use_cache", True, True),
        ):
            with self.subTest(name=name, value=value):
                self.assertEqual(small.small_value(name, value, every), want)

    def test_a_group_of_rules_can_be_left_out(self):
        self.assertEqual(small.small_value("num_hidden_layers", 32, set(small.GROUPS) - {"layers"}), 32)


class Values(unittest.TestCase):
    def setUp(self):
        self.config = SimpleNamespace(vocab_size=128, image_token_id=120, image_size=64, patch_size=16, num_channels=3)

    def test_inputs_are_the_same_each_time_and_differ_by_seed(self):
        plan = {"input_ids": "tokens", "pixel_values": "image"}
        first, again, other = (inputs.make(plan, self.config, seed) for seed in (1, 1, 2))
        self.assertTrue(torch.equal(first["pixel_values"], again["pixel_values"]))
        self.assertFalse(torch.equal(first["pixel_values"], other["pixel_values"]))
        self.assertEqual(first["pixel_values"].shape, (2, 3, 64, 64))

    def test_text_holds_the_tokens_that_stand_for_an_image(self):
        tokens = inputs.make({"input_ids": "tokens.image4"}, self.config, 1)["input_ids"]
        self.assertEqual(tokens.shape, (2, 12))
        self.assertEqual((tokens == 120).sum(dim=1).tolist(), [4, 4])

    def test_an_output_is_named_by_where_it_stands_and_caches_are_left_out(self):
        output = {"logits": torch.ones(1), "states": (torch.ones(2), [torch.ones(3)]), "cache": object()}
        self.assertEqual([name for name, _ in outputs.named_tensors(output)], ["logits", "states.0", "states.1.0"])

    def test_in_double_what_is_asked_for_in_f32_is_f64(self):
        with outputs.in_double():
            self.assertEqual(torch.ones(1).dtype, torch.float64)
            self.assertEqual(torch.ones(1, dtype=torch.float32).dtype, torch.float64)
            self.assertEqual(torch.ones(1, dtype=torch.int64).to(torch.float32).dtype, torch.float64)
            self.assertEqual(torch.ones(1, dtype=torch.int64).float().dtype, torch.float64)
        self.assertEqual(torch.ones(1).dtype, torch.float32)

    def test_vanishing_gradients_are_judged_on_the_largest_ones_scale(self):
        exact = {"loss": torch.tensor(1.0), "gradient.w": torch.ones(3), "gradient.k": torch.full((2,), 1e-18)}
        noisy = {"loss": torch.tensor(1.0), "gradient.w": torch.ones(3), "gradient.k": torch.full((2,), 1e-9)}
        merged, other = steps.merge_vanishing(exact, noisy)
        self.assertEqual(set(merged), {"loss", "gradient.w"})
        self.assertEqual(other["gradient.w"].tolist(), [1.0, 1.0, 1.0, *noisy["gradient.k"].tolist()])


@unittest.skipUnless(HAVE_LIBRARY, "transformers is not installed; ci/setup --torch installs it")
class Library(unittest.TestCase):
    def test_the_table_is_of_the_installed_version_and_has_every_type(self):
        import transformers

        self.assertEqual(
            models.table()["transformers"], transformers.__version__, "python -m tpu_parity_torch.transformers.table"
        )
        listed = {models.subject(name) for name in models.all_types()}
        self.assertEqual(listed, models.made().keys() | models.unmade().keys())

    def test_lines_of_the_table_are_what_trying_again_gives(self):
        from tpu_parity_torch.transformers import table

        for name in ("llama", "bert", "vit"):
            line = next(entry for entry in models.table()["made"] if entry["type"] == name)
            self.assertEqual(json.loads(json.dumps(models.to_entry(table.attempt(name)))), line)
        # Its vision model is of the library timm, which the suites do not install.
        with self.assertRaisesRegex(table.Unmade, "timm"):
            table.attempt("gemma3n")

    def test_on_cpu_a_model_agrees_with_itself_in_f64(self):
        context = Context(Device("cpu", "CPU"), lambda stage: None)
        for step in ("forward", "loss-backward", "optimizer-step", "save-load"):
            measured = suite_case.run(f"transformers/llama/{step}/f32/eager", context)
            self.assertEqual(measured.figures["reference"], "f64")
            for result in measured.results:
                self.assertTrue(torch.equal(result.cpu, result.device), result.name)
                difference = (result.reference - result.cpu).abs().max()
                self.assertLess(float(difference), 1e-4 * float(result.reference.abs().max()), result.name)
            self.assertIn("aten.embedding", measured.operators)

    def test_generation_compares_tokens(self):
        measured = suite_case.run("transformers/gpt2/generate/f32/eager", Context(Device("cpu", "CPU"), lambda stage: None))
        (tokens,) = measured.results
        self.assertFalse(tokens.cpu.is_floating_point())
        self.assertEqual(tokens.cpu.shape, (2, inputs.LENGTH + steps.NEW_TOKENS))


if __name__ == "__main__":
    unittest.main()
