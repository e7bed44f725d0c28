"""Whole programs: StableHLO's own examples (docs/spec.md of openxla/stablehlo) and arithmetic by hand."""

import unittest
from typing import Any

from oracle import operators
from oracle.arithmetic import Extended
from oracle.element_types import Tensor
from oracle.evaluate import Evaluator
from oracle.program import Program, UnreadableError

assert operators


def run(body: str, result: str, inputs: str = "", *values: Tensor) -> Any:
    """What a function of this body returns as `%0`."""
    text = f"func.func @main({inputs}) -> {result} {{\n{body}\nreturn %0 : {result}\n}}"
    (found,) = Evaluator(Program(text), Extended()).run(values)
    return found.array.tolist()


def constant(name: str, values: str, type_: str) -> str:
    return f"%{name} = stablehlo.constant dense<{values}> : tensor<{type_}>\n"


class Constants(unittest.TestCase):
    def test_every_written_form(self) -> None:
        for values, type_, expected in [
            ("[1, -2]", "2xi8", [1, -2]),
            ("true", "2xi1", [True, True]),
            ("[0x7F800000, 1.5]", "2xf32", [float("inf"), 1.5]),
            ("(1.0, -2.0)", "complex<f64>", 1 - 2j),
            ('"0x0000803F000000C0"', "2xf32", [1.0, -2.0]),
            ("[0.1]", "1xbf16", [0.10009765625]),
        ]:
            self.assertEqual(run(constant("0", values, type_), f"tensor<{type_}>"), expected)

    def test_what_the_parser_refuses_is_told(self) -> None:
        with self.assertRaises(UnreadableError):
            Program("func.func @main() { nonsense }")


class Movement(unittest.TestCase):
    def test_pad(self) -> None:
        body = constant("x", "[[1, 2, 3], [4, 5, 6]]", "2x3xi32") + constant("p", "0", "i32")
        body += "%0 = stablehlo.pad %x, %p, low = [0, 1], high = [2, 1], interior = [1, 2] "
        body += ": (tensor<2x3xi32>, tensor<i32>) -> tensor<5x9xi32>"
        blank = [0] * 9
        rows = [[0, 1, 0, 0, 2, 0, 0, 3, 0], blank, [0, 4, 0, 0, 5, 0, 0, 6, 0], blank, blank]
        self.assertEqual(run(body, "tensor<5x9xi32>"), rows)

    def test_negative_padding_cuts(self) -> None:
        body = constant("x", "[1, 2, 3, 4]", "4xi32") + constant("p", "0", "i32")
        body += "%0 = stablehlo.pad %x, %p, low = [-1], high = [1], interior = [0] "
        body += ": (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>"
        self.assertEqual(run(body, "tensor<4xi32>"), [2, 3, 4, 0])

    def test_a_gather_clamps_its_starts(self) -> None:
        body = constant("x", "[10, 11, 12, 13]", "4xi32") + constant("i", "[[9], [-3]]", "2x1xi32")
        body += '%0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        body += "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>} "
        body += ": (tensor<4xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>"
        self.assertEqual(run(body, "tensor<2x2xi32>"), [[12, 13], [10, 11]])

    def test_a_scatter_drops_the_elements_that_are_outside_and_no_others(self) -> None:
        body = constant("x", "[1, 1, 1, 1]", "4xi32") + constant("i", "[[3], [-1]]", "2x1xi32")
        body += constant("u", "[[5, 6], [7, 8]]", "2x2xi32")
        body += '%0 = "stablehlo.scatter"(%x, %i, %u) ({\n^bb0(%a: tensor<i32>, %b: tensor<i32>):\n'
        body += "%s = stablehlo.add %a, %b : tensor<i32>\nstablehlo.return %s : tensor<i32>\n}) "
        body += "{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
        body += "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} "
        body += ": (tensor<4xi32>, tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<4xi32>"
        self.assertEqual(run(body, "tensor<4xi32>"), [1 + 8, 1, 1, 1 + 5])

    def test_bits_of_a_narrower_type_come_lowest_first(self) -> None:
        body = constant("x", "258", "i32") + "%0 = stablehlo.bitcast_convert %x : (tensor<i32>) -> tensor<4xi8>"
        self.assertEqual(run(body, "tensor<4xi8>"), [2, 1, 0, 0])

    def test_sort_is_stable_and_moves_all_operands(self) -> None:
        body = constant("k", "[2, 1, 2, 1]", "4xi32") + constant("v", "[0, 1, 2, 3]", "4xi32")
        body += '%s:2 = "stablehlo.sort"(%k, %v) ({\n^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):\n'
        body += "%l = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %l : tensor<i1>\n"
        body += "}) {dimension = 0 : i64, is_stable = true} : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)\n"
        body += "%0 = stablehlo.add %s#1, %s#1 : tensor<4xi32>"
        self.assertEqual(run(body, "tensor<4xi32>"), [2, 6, 0, 4])


ADD = "({\n^bb0(%a: tensor<i32>, %b: tensor<i32>):\n%s = stablehlo.add %a, %b : tensor<i32>\nstablehlo.return %s : tensor<i32>\n}"


class Windows(unittest.TestCase):
    def test_reduce_window_with_both_dilations(self) -> None:
        body = constant("x", "[[1, 2], [3, 4], [5, 6]]", "3x2xi32") + constant("i", "0", "i32")
        body += f'%0 = "stablehlo.reduce_window"(%x, %i) {ADD}) {{window_dimensions = array<i64: 2, 1>, '
        body += "window_strides = array<i64: 4, 1>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 1>, "
        body += "padding = dense<[[2, 1], [0, 0]]> : tensor<2x2xi64>} : (tensor<3x2xi32>, tensor<i32>) -> tensor<2x2xi32>"
        self.assertEqual(run(body, "tensor<2x2xi32>"), [[0, 0], [3, 4]])

    def test_select_and_scatter(self) -> None:
        body = constant("x", "[[1, 5], [2, 5], [3, 6], [4, 4]]", "4x2xi32") + constant("y", "[[5, 6], [7, 8]]", "2x2xi32")
        body += constant("i", "0", "i32")
        body += '%0 = "stablehlo.select_and_scatter"(%x, %y, %i) ({\n^bb0(%a: tensor<i32>, %b: tensor<i32>):\n'
        body += (
            "%g = stablehlo.compare GE, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %g : tensor<i1>\n},"
        )
        body += ADD[1:]
        body += ") {window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, "
        body += "padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>} "
        body += ": (tensor<4x2xi32>, tensor<2x2xi32>, tensor<i32>) -> tensor<4x2xi32>"
        self.assertEqual(run(body, "tensor<4x2xi32>"), [[0, 0], [0, 0], [5, 14], [7, 0]])

    def test_convolution_does_not_turn_its_kernel(self) -> None:
        body = constant("x", "[[[1], [2], [4], [8]]]", "1x4x1xi32") + constant("k", "[[[1]], [[0]], [[-1]]]", "3x1x1xi32")
        body += '%0 = "stablehlo.convolution"(%x, %k) {window_strides = array<i64: 1>, '
        body += "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, "
        body += "batch_group_count = 1 : i64} : (tensor<1x4x1xi32>, tensor<3x1x1xi32>) -> tensor<1x2x1xi32>"
        self.assertEqual(run(body, "tensor<1x2x1xi32>"), [[[1 - 4], [2 - 8]]])


class Linear(unittest.TestCase):
    def test_cholesky_by_hand(self) -> None:
        body = constant("x", "[[4.0, 9.0], [2.0, 5.0]]", "2x2xf64")
        body += "%0 = stablehlo.cholesky %x, lower = true : tensor<2x2xf64>"
        self.assertEqual(run(body, "tensor<2x2xf64>"), [[2, 0], [1, 2]])

    def test_triangular_solve_from_the_right(self) -> None:
        body = constant("a", "[[2.0, 0.0], [1.0, 4.0]]", "2x2xf64") + constant("b", "[[4.0, 8.0]]", "1x2xf64")
        body += '%0 = "stablehlo.triangular_solve"(%a, %b) {left_side = false, lower = true, unit_diagonal = false, '
        body += "transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf64>, tensor<1x2xf64>) -> tensor<1x2xf64>"
        # x a = b: 4 x1 = 8, 2 x0 + x1 = 4.
        self.assertEqual(run(body, "tensor<1x2xf64>"), [[1, 2]])

    def test_fft_of_a_shifted_impulse(self) -> None:
        body = constant("x", "[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]", "4xcomplex<f64>")
        body += "%0 = stablehlo.fft %x, type = FFT, length = [4] : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>"
        for found, expected in zip(run(body, "tensor<4xcomplex<f64>>"), [1, -1j, -1, 1j], strict=True):
            self.assertAlmostEqual(complex(found), expected, places=15)

    def test_ragged_rows_meet_the_matrix_of_their_group(self) -> None:
        body = constant("x", "[[1], [2], [3]]", "3x1xi32") + constant("y", "[[[10]], [[100]]]", "2x1x1xi32")
        body += constant("g", "[1, 1]", "2xi32")
        body += '%0 = "chlo.ragged_dot"(%x, %y, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<'
        body += "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], "
        body += "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} "
        body += ": (tensor<3x1xi32>, tensor<2x1x1xi32>, tensor<2xi32>) -> tensor<3x1xi32>"
        # The third row is beyond the last group.
        self.assertEqual(run(body, "tensor<3x1xi32>"), [[10], [200], [0]])


class Control(unittest.TestCase):
    def test_a_loop_sees_the_values_around_it(self) -> None:
        body = constant("zero", "0", "i32") + constant("one", "1", "i32") + constant("n", "5", "i32")
        body += "%s:2 = stablehlo.while(%i = %zero, %t = %zero) : tensor<i32>, tensor<i32>\ncond {\n"
        body += "%c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n"
        body += "} do {\n%j = stablehlo.add %i, %one : tensor<i32>\n%u = stablehlo.add %t, %j : tensor<i32>\n"
        body += "stablehlo.return %j, %u : tensor<i32>, tensor<i32>\n}\n%0 = stablehlo.add %s#1, %zero : tensor<i32>"
        self.assertEqual(run(body, "tensor<i32>"), 1 + 2 + 3 + 4 + 5)

    def test_a_case_outside_takes_the_last_branch(self) -> None:
        for index, expected in [(0, 10), (1, 20), (7, 20), (-1, 20)]:
            body = constant("i", str(index), "i32") + constant("x", "10", "i32") + constant("y", "20", "i32")
            body += '%0 = "stablehlo.case"(%i) ({\nstablehlo.return %x : tensor<i32>\n}, {\nstablehlo.return %y : tensor<i32>\n'
            body += "}) : (tensor<i32>) -> tensor<i32>"
            self.assertEqual(run(body, "tensor<i32>"), expected)


if __name__ == "__main__":
    unittest.main()
