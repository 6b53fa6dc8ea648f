"""``python -m dualclust``: the command, see `dualclust.cli`."""

from .cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
