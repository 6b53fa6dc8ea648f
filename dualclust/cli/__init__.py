"""The command ``dualclust``: cluster, train, resume, demo, proofs, docs; one module each.

`main` reads the arguments and turns errors into one line and an exit code. It imports a sub-command
only when it is called, so that ``dualclust --help`` is quick and needs no extra.
"""
