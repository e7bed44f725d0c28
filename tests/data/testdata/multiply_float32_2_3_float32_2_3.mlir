// Two parameters, raw and listed data, and a private function that is kept.

module @jit_main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<2x3xf32> {jax.result_info = ""}) {
    %0:2 = call @inputs() : () -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %1 = call @expected() : () -> tensor<2x3xf32>
    %2 = call @product(%0#0, %0#1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
    return %2 : tensor<2x3xf32>
  }
  func.func private @inputs() -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<[[1.5, -2.0, 0x7F800000], [0.0, 3.000000e+00, 0.25]]> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<"0x00000040"> : tensor<2x3xf32>
    return %cst, %cst_0 : tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @expected() -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<[[3.0, -4.0, 0x7F800000], [0.0, 6.0, 0.5]]> : tensor<2x3xf32>
    return %cst : tensor<2x3xf32>
  }
  func.func private @product(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
