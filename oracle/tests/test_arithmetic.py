"""Functions at points that tables give, special values by IEEE 754 and C's annexes, integers at their ends."""

import math
import unittest

import numpy as np

from oracle.arithmetic import Extended, compare, next_after
from oracle.element_types import Array, ElementType, Tensor, tensor

F64, F32, I8, U8 = (ElementType(name) for name in ("f64", "f32", "i8", "ui8"))
INF, NAN = math.inf, math.nan


def one(name: str, *operands: float, of: ElementType = F64) -> float:
    arrays = [tensor([x], of) for x in operands]
    arithmetic = Extended()
    found = arithmetic.unary(name, *arrays) if len(arrays) == 1 else arithmetic.binary(name, *arrays)
    return found.array[0].item() if of.is_integer else float(found.array[0])


class Functions(unittest.TestCase):
    def test_values_of_tables(self) -> None:
        # Abramowitz and Stegun, "Handbook of Mathematical Functions", tables 4.2, 6.1, 7.1, 9.8, 23.3; rounded to f64.
        for name, arguments, value in [
            ("exponential", (1.0,), 2.718281828459045),
            ("log", (2.0,), 0.6931471805599453),
            ("tanh", (1.0,), 0.7615941559557649),
            ("erf", (0.5,), 0.5204998778130465),
            ("erfc", (2.0,), 0.004677734981047266),
            ("erf_inv", (0.5204998778130465,), 0.5),
            ("lgamma", (0.5,), 0.5723649429247001),
            ("digamma", (1.0,), -0.5772156649015329),
            ("zeta", (2.0, 1.0), 1.6449340668482264),
            ("polygamma", (1.0, 1.0), 1.6449340668482264),
            ("cbrt", (-27.0,), -3.0),
            ("rsqrt", (4.0,), 0.5),
            ("logistic", (0.0,), 0.5),
            ("atan2", (1.0, 1.0), 0.7853981633974483),
            ("power", (2.0, 0.5), 1.4142135623730951),
            ("power", (-2.0, 3.0), -8.0),
        ]:
            self.assertEqual(one(name, *arguments), value, name)

    def test_a_value_of_which_the_table_has_ten_digits(self) -> None:
        self.assertAlmostEqual(one("bessel_i1e", 1.0), 0.2079104153, places=10)

    def test_tiny_arguments_keep_their_digits(self) -> None:
        for name in ("sine", "tan", "tanh", "asinh", "atanh", "sinh", "exponential_minus_one", "log_plus_one", "asin", "atan"):
            self.assertEqual(one(name, 1e-300), 1e-300, name)
            self.assertEqual(math.copysign(1, one(name, -0.0)), -1, name)

    def test_ends(self) -> None:
        # IEEE 754-2019, table 9.1, and C11 annex F.10.
        for name, argument, value in [
            ("exponential", -INF, 0.0),
            ("exponential", 1000.0, INF),
            ("exponential_minus_one", -INF, -1.0),
            ("log", 0.0, -INF),
            ("log_plus_one", -1.0, -INF),
            ("rsqrt", -0.0, -INF),
            ("atanh", 1.0, INF),
            ("erf_inv", -1.0, -INF),
            ("erfc", -INF, 2.0),
            ("lgamma", -1.0, INF),
            ("lgamma", 1.0, 0.0),
            ("acos", 1.0, 0.0),
        ]:
            self.assertEqual(one(name, argument), value, name)
        for name, argument in [("log", -1.0), ("acosh", 0.5), ("sine", INF), ("asin", 1.5), ("sqrt", -1.0), ("digamma", -1.0)]:
            self.assertTrue(math.isnan(one(name, argument)), name)
        for base, exponent, value in [
            (1.0, NAN, 1.0),
            (NAN, 0.0, 1.0),
            (-0.0, -3.0, -INF),
            (0.5, INF, 0.0),
            (-1.0, INF, 1.0),
            (-INF, 0.5, INF),
        ]:
            self.assertEqual(one("power", base, exponent), value)
        self.assertTrue(math.isnan(one("power", -8.0, 1 / 3)))
        self.assertEqual(math.copysign(1, one("power", -0.0, 0.5)), 1)

    def test_poles_of_zeta_have_a_value_where_both_sides_agree(self) -> None:
        self.assertEqual(one("zeta", 2.0, -1.0), INF)
        self.assertTrue(math.isnan(one("zeta", 3.0, -1.0)))

    def test_maximum_and_minimum_are_those_of_ieee_754_2019(self) -> None:
        self.assertTrue(math.isnan(one("maximum", 1.0, NAN)) and math.isnan(one("minimum", NAN, 1.0)))
        self.assertEqual(math.copysign(1, one("maximum", -0.0, 0.0)), 1)
        self.assertEqual(math.copysign(1, one("minimum", 0.0, -0.0)), -1)

    def test_rounding_is_once(self) -> None:
        # 1 + 2^-53 + 2^-64 is above the tie in f64; in 80 bits it would be a tie, and go down to even.
        self.assertEqual(one("add", 1.0, 2.0**-53 + 2.0**-64), 1.0000000000000002)
        self.assertEqual(one("divide", 1.0, 3.0, of=F32), float(np.float32(1) / np.float32(3)))
        for value, even, away in [(0.5, 0.0, 1.0), (2.5, 2.0, 3.0), (-1.5, -2.0, -2.0), (0.49999999999999994, 0.0, 0.0)]:
            self.assertEqual(one("round_nearest_even", value), even)
            self.assertEqual(one("round_nearest_afz", value), away)


class Integers(unittest.TestCase):
    def test_the_ends_of_the_range(self) -> None:
        for name, a, b, value in [
            ("add", 127, 1, -128),
            ("divide", -128, -1, -128),
            ("divide", -7, 2, -3),
            ("remainder", -7, 2, -1),
            ("divide", 5, 0, -1),
            ("remainder", 5, 0, 5),
            ("mulhi", -128, -128, 64),
            ("shift_left", 1, 8, 0),
            ("shift_right_arithmetic", -128, 9, -1),
            ("shift_right_logical", -1, 7, 1),
            ("power", 3, 5, -13),
            ("power", -1, -3, -1),
        ]:
            self.assertEqual(one(name, a, b, of=I8), value, (name, a, b))
        self.assertEqual(one("popcnt", -1, of=I8), 8)
        self.assertEqual(one("count_leading_zeros", 1, of=U8), 7)
        self.assertEqual(one("negate", 1, of=U8), 255)

    def test_a_float_outside_the_range_saturates(self) -> None:
        x = tensor([300.7, -300.0, NAN, -1.9, INF], F64)
        self.assertEqual(Extended().convert(x, I8).array.tolist(), [127, -128, 0, -1, 127])
        self.assertEqual(Extended().convert(x, U8).array.tolist(), [255, 0, 0, 0, 255])


class Order(unittest.TestCase):
    def test_total_order(self) -> None:
        # IEEE 754-2019, section 5.10.
        ordered = tensor([-NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, NAN], F64)
        ordered.array[0] = np.copysign(ordered.array[0], -1)
        left, right = Tensor(ordered.array[:-1], F64), Tensor(ordered.array[1:], F64)
        self.assertTrue(compare("LT", left, right, total_order=True).array.all())
        self.assertFalse(compare("GE", left, right, total_order=True).array.any())
        self.assertTrue(compare("EQ", ordered, ordered, total_order=True).array.all())

    def test_next_after_steps_one_value(self) -> None:
        bf16 = ElementType("bf16")
        x, y = tensor([1.0, 1.0, 0.0, 0.0, 2.0, 5.0], bf16), tensor([2.0, 0.0, 1.0, -1.0, 2.0, NAN], bf16)
        found: Array = next_after(x, y)
        self.assertEqual(found[:5].tolist(), [1 + 2.0**-7, 1 - 2.0**-8, 2.0**-133, -(2.0**-133), 2.0])
        self.assertTrue(np.isnan(found[5]))


class Sums(unittest.TestCase):
    def test_a_sum_is_rounded_once(self) -> None:
        x = tensor([[1.0, 2.0**-53, 2.0**-53]], F64)
        self.assertEqual(Extended().sum(x, (1,), tensor(0.0, F64)).array.tolist(), [1 + 2.0**-52])

    def test_integer_products_are_exact(self) -> None:
        x = tensor([[[100, 100]]], I8)
        product = Extended().contract(x, tensor([[[100], [100]]], I8), ElementType("i32"))
        self.assertEqual(product.array.tolist(), [[[20000]]])
        self.assertEqual(Extended().contract(x, tensor([[[100], [100]]], I8), I8).array.tolist(), [[[32]]])


if __name__ == "__main__":
    unittest.main()
