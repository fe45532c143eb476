"""How good guesses are: pure functions of gold and guess, gold first, with numpy alone.

Shares run from 0 to 1. A share of nothing, 0/0, is 0 throughout, as with scikit-learn's `zero_division=0`:
an empty file, or a class that never occurred, has a score of 0, never NaN.
"""
