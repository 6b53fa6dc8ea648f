"""Plugin of pytest for rows without JAX: nothing to do, since tests/libraries.py looks for it.

JAX asks for a newer SciPy than the lowest that pyproject.toml allows.
"""
