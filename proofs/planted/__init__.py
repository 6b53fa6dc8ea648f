"""Errors planted in the library's own code, to see whether the claims notice them.

`planting` puts one error into the running program, `tables` lists them by paper, `runs` plants them
all in processes of their own, and `report` says which claims noticed.
"""
