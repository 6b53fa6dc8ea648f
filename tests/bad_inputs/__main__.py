"""Give bad inputs to the library and count how each is refused.

    python -m tests.bad_inputs                  all of them, and a line for each kind
    python -m tests.bad_inputs npy safetensors  those whose names begin so
    python -m tests.bad_inputs --every 20       each twentieth

Each must end in an error of ours that names the argument or the file, says on one line what to do,
takes less than two seconds and writes nothing. The exit code is 1 where one does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bad_inputs.judge import Bad, judged

__all__ = ["all_cases", "main"]

LONGEST = 2.0
"""Seconds that one may take."""


def all_cases(model: Path) -> Iterator[Bad]:
    """Yield all bad inputs; `model` is an exported model."""
    from tests.bad_inputs.arguments import argument_cases
    from tests.bad_inputs.arrays import array_cases
    from tests.bad_inputs.options import option_cases
    from tests.bad_inputs.pictures import picture_cases
    from tests.bad_inputs.states import state_cases
    from tests.bad_inputs.tables import table_cases

    yield from array_cases()
    yield from table_cases()
    yield from picture_cases()
    yield from state_cases(model)
    yield from argument_cases()
    yield from option_cases()


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    import torch  # noqa: F401, so that no case pays for it

    from tests.bad_inputs.small_model import write_model

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    wrong, slowest, total = 0, (0.0, ""), 0
    with tempfile.TemporaryDirectory() as home:
        model = write_model(Path(home) / "model.safetensors")
        for i, bad in enumerate(all_cases(model)):
            if i % options.every or (
                options.names and not bad.name.startswith(tuple(options.names))
            ):
                continue
            folder = Path(home) / str(i)
            folder.mkdir()
            verdict = judged(bad, folder)
            complaints = list(verdict.complaints)
            if verdict.seconds > LONGEST:
                complaints.append(f"it took {verdict.seconds:.1f} s")
            slowest = max(slowest, (verdict.seconds, bad.name))
            counts[bad.name.split("-")[0]] += 1
            total += 1
            wrong += bool(complaints)
            for text in complaints:
                print(f"WRONG {bad.name}: {text}", flush=True)
    for kind, count in sorted(counts.items()):
        print(f"{count:6,} {kind}")
    print(f"{total:,} bad inputs, {total - wrong:,} refused as they must be, {wrong:,} not")
    print(f"slowest: {slowest[0]:.2f} s ({slowest[1]})")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
