//! What changed between two runs, target by target. No expectations here: outcomes only.
