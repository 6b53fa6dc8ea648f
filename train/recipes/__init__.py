"""Recipes: TOML files, ``METHOD_DATA.toml``, each with all settings of a run of one method.

The first lines of a recipe say what it follows, a paper or its released code.
"""
