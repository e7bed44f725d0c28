"""Encodings and rounding, against the formats' own definitions."""

import unittest

import numpy as np

from oracle.element_types import ElementType, Real, decode, encode, reduce_precision, round_to, tensor, wrap


class Encodings(unittest.TestCase):
    def test_hand_picked_encodings(self) -> None:
        # (type, encoding, value): IEEE 754 section 3.4; arXiv 2209.05433 table 1; OCP Microscaling tables 1 to 3.
        for name, code, value in [
            ("f32", 0x3F800000, 1.0),
            ("f16", 0x0001, 2.0**-24),
            ("bf16", 0x7F7F, (2 - 2.0**-7) * 2.0**127),
            ("f8E4M3FN", 0x7E, 448.0),
            ("f8E5M2", 0x7B, 57344.0),
            ("f8E5M2", 0x01, 2.0**-16),
            ("f8E4M3FNUZ", 0x7F, 240.0),
            ("f4E2M1FN", 0x7, 6.0),
            ("f6E2M3FN", 0x1F, 7.5),
            ("f8E8M0FNU", 0x7F, 1.0),
        ]:
            type_ = ElementType(name)
            self.assertEqual(type_.format.decode(code), value, name)
            data = code.to_bytes(type_.bytes, "little")
            self.assertEqual(decode(data, (), type_).array, value, name)
            self.assertEqual(encode(tensor(value, type_)), data, name)

    def test_what_is_no_number(self) -> None:
        self.assertTrue(np.isnan(ElementType("f8E4M3FN").format.decode(0x7F)))
        self.assertTrue(np.isnan(ElementType("f8E4M3FNUZ").format.decode(0x80)))
        self.assertEqual(ElementType("f8E5M2").format.decode(0xFC), -np.inf)

    def test_signed_integers_below_a_byte_are_sign_extended(self) -> None:
        self.assertEqual(decode(b"\xf8\x07", (2,), ElementType("i4")).array.tolist(), [-8, 7])
        self.assertEqual(encode(tensor([-8, 7], ElementType("i4"))), b"\xf8\x07")

    def test_integers_wrap(self) -> None:
        values = np.array([128, -129, 255, 256], dtype=object)
        self.assertEqual(wrap(values, ElementType("i8")).tolist(), [-128, 127, -1, 0])
        self.assertEqual(wrap(values, ElementType("ui8")).tolist(), [128, 127, 255, 0])


class Rounding(unittest.TestCase):
    def test_ties_go_to_even(self) -> None:
        # bf16 has 8 bits: between 1 and 1 + 2^-7 lies a tie at 1 + 2^-8.
        for value, expected in [(1 + 2.0**-8, 1.0), (1 + 3 * 2.0**-8, 1 + 2.0**-6), (1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-7)]:
            self.assertEqual(round_to(np.array([value], Real), ElementType("bf16"))[0], expected)

    def test_overflow_is_as_the_format_says(self) -> None:
        big = np.array([1e6, -1e6], Real)
        self.assertEqual(round_to(big, ElementType("f16")).tolist(), [np.inf, -np.inf])
        self.assertEqual(round_to(big, ElementType("f4E2M1FN")).tolist(), [6, -6])
        self.assertTrue(np.isnan(round_to(big, ElementType("f8E4M3FN"))).all())
        # 65520 is half way between the largest f16 and 2^16.
        self.assertEqual(round_to(np.array([65519.99, 65520], Real), ElementType("f16")).tolist(), [65504, np.inf])

    def test_subnormals_round_to_their_own_spacing(self) -> None:
        small = np.array([2.0**-25, 2.0**-25 * 1.01, 1.5 * 2.0**-24], Real)
        self.assertEqual(round_to(small, ElementType("f16")).tolist(), [0, 2.0**-24, 2 * 2.0**-24])

    def test_reduce_precision_flushes_and_overflows(self) -> None:
        # e5m2: 2^-14 is the smallest normal, 57344 the largest value.
        x = np.array([1.125, 1.375, 2.0**-15, -(2.0**-15), 61440.0, -1e9], Real)
        out = reduce_precision(x, 5, 2)
        self.assertEqual(out.tolist(), [1.0, 1.5, 0.0, 0.0, np.inf, -np.inf])
        self.assertEqual(np.signbit(out).tolist(), [False, False, False, True, False, True])


if __name__ == "__main__":
    unittest.main()
