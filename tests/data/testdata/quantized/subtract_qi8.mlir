// Several modules, each function of which is a test; operands and expected values are constants.

module {
  func.func @subtract_i8() {
    %c = stablehlo.constant dense<[1, -128, 127]> : tensor<3xi8>
    %c_0 = stablehlo.constant dense<[3, 1, -1]> : tensor<3xi8>
    %0 = stablehlo.subtract %c, %c_0 : tensor<3xi8>
    "check.expect_eq_const"(%0) <{value = dense<[-2, 127, -128]> : tensor<3xi8>}> : (tensor<3xi8>) -> ()
    return
  }
}

// -----

module {
  func.func @subtract_bf16() {
    %cst = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xbf16>
    %cst_0 = stablehlo.constant dense<0.5> : tensor<2xbf16>
    %0 = stablehlo.subtract %cst, %cst_0 : tensor<2xbf16>
    check.expect_almost_eq_const %0, dense<[0.5, 2.0]> : tensor<2xbf16>
    return
  }
}
