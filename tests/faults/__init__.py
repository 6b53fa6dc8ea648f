"""Faults injected into runs of the library, and whether the runs end well all the same.

``make faults`` runs `program` with real processes; the suite runs a few of the same faults inside
one process. `disk` fails, kills or signals at the n-th operation on the disk, `tasks` says what
runs and what it must leave, `ranks` is about several processes, `corruption` about stored bytes.
"""
