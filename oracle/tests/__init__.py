"""Values from specifications, hand arithmetic and published test vectors.

Run with `python -m unittest discover -t . oracle/tests` in the folder above the package.
"""
