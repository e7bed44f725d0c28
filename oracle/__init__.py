"""A second opinion on the stored references: an evaluator of StableHLO and CHLO programs that shares no numeric code with XLA.

jaxlib's MLIR bindings parse the program and nothing else. Integers are exact, floats are computed in 80 or more bits and rounded
once per operator, transcendental and special functions come from mpmath, and data movement is written out here.
"""
