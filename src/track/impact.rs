//! What each issue costs: the cases that it blocks, from expectations and the verdicts of a run.
