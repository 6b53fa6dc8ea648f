"""A process that has loaded what every test needs, and forks for each run of tests.

A mutant is seen or missed within a second; before it, an interpreter takes five to load PyTorch,
numba and Hypothesis. `Warm` loads them once. It loads nothing of the library, so that each child
reads the library's modules as they then stand, with the mutant in them.

This file is also the program of that process: lines of JSON come in, exit codes go out.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LOADED", "Warm"]

LOADED = (
    "array_api_compat.numpy",
    "array_api_compat.torch",
    "array_api_strict",
    "coverage",
    "cvxpy",
    "hypothesis.extra.numpy",
    "numba",
    "scipy.optimize",
    "sklearn.cluster",
    "sklearn.metrics",
    "torch",
    "_pytest.assertion.rewrite",
)
# A child that asks for more has an error in its memory: the machine is shared.
MOST_BYTES = 8 * 2**30
# pytest cannot rewrite the assertions of a plug-in that is loaded already; it has none.
PYTEST = ["-q", "-x", "--tb=line", "-p", "no:cacheprovider", "-o", "timeout=0"]
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


class Warm:
    """Runs tests below a folder, each time in a child of one process.

    Parameters
    ----------
    root : Path
        Where tests run, and the first place that modules are looked for.
    loaded : sequence of str
        Modules to load before the first run. One that is not installed is left out.
    wall_seconds : float
        After these a test is ended that uses no CPU time, because it waits for what never comes.
    """

    def __init__(
        self, root: Path, loaded: Sequence[str] = LOADED, wall_seconds: float = 3600.0
    ) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        # -P: modules beside this file ("trace", "run") must not hide others of the same name.
        self._wall_seconds = wall_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, *loaded],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, targets: Sequence[str], cpu_seconds: int) -> tuple[int, str]:
        """Run tests; return the exit code and what they printed. Negative codes are signals.

        Parameters
        ----------
        targets : sequence of str
            Arguments of pytest: files, names of tests, options.
        cpu_seconds : int
            When one test uses more, the run is ended with code -SIGPROF; with -SIGALRM, when it
            takes longer than `wall_seconds`.
        """
        incoming, outgoing = self._process.stdin, self._process.stdout
        assert incoming is not None
        assert outgoing is not None
        with tempfile.NamedTemporaryFile(prefix="printed-") as printed:
            try:
                limits = cpu_seconds, self._wall_seconds
                incoming.write(json.dumps([*limits, printed.name, [*PYTEST, *targets]]) + "\n")
                incoming.flush()
            except BrokenPipeError:
                answer = ""
            else:
                answer = outgoing.readline()
            if not answer:
                msg = f"the process that runs tests has ended with {self._process.wait()}"
                raise RuntimeError(msg)
            text = Path(printed.name).read_text(encoding="utf-8", errors="replace")
        return int(answer), text

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class _Limits:
    """A plug-in of pytest: what is read before the first test, and each test, must end."""

    def __init__(self, cpu_seconds: float, wall_seconds: float) -> None:
        self.limits = cpu_seconds, wall_seconds
        self.pytest_runtest_logstart()

    def pytest_runtest_logstart(self) -> None:
        """Begin again. Nobody handles these signals, so that they end the process."""
        cpu_seconds, wall_seconds = self.limits
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)


def _serve(loaded: Sequence[str]) -> None:
    for name in loaded:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        *limits, printed, arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(limits, printed, arguments)
        # By both, as shells do: its time may be up before the child has come to it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)
        try:
            _, status = os.waitpid(child, 0)
        finally:  # whatever ends this: the child is in a group of its own, with what it started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _become(limits: Sequence[float], printed: str, arguments: list[str]) -> None:
    """Run pytest as this process, which then ends, whatever happens."""
    code = 3
    try:
        os.setpgid(0, 0)  # what the tests start ends with them
        log = os.open(printed, os.O_WRONLY | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(old, new)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        plugin = _Limits(*limits)
        import pytest

        code = int(pytest.main(arguments, plugins=[plugin]))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
