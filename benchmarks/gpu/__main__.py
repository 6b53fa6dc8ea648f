"""``python -m benchmarks.gpu``: looks at the versions first, then at everything else."""

from __future__ import annotations

import sys

from .needs import CannotRun, prepare


def main() -> int:
    """Run the command; a message on stderr and 2 where it cannot run here."""
    try:
        prepare()
        from .program import main as run

        return run(sys.argv[1:])
    except CannotRun as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
