"""Programs of tests, in forks of one interpreter that has loaded what each of them imports.

An interpreter of its own spends six seconds on PyTorch, scikit-learn and the library, more than
most of these programs need for what they do. One process of each worker loads them once, and forks
for each call. It runs nothing before: no thread, kernel or gradient that a fork would lose.

This file is also the program of that process: lines of JSON come in, exit codes go out.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

__all__ = ["run_program"]

ROOT = Path(__file__).parents[1]
LOADED = (
    "sklearn.metrics.cluster",
    "torch._dynamo",  # an optimizer brings it along
    "torch.distributed",
    "dualclust.cli.main",
    "dualclust.cluster.command",
    "dualclust.train.loop",
)


def run_program(
    source: str, *arguments: str, env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run ``python -c source arguments`` at the root of the repository, on one thread.

    Parameters
    ----------
    source : str
        A program; it may fork further.
    arguments : str
    env : mapping
        Its whole environment. What a library reads while it is loaded has no effect any more.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("out", "err")]
        call = {"source": source, "arguments": arguments, "env": dict(env)}
        line = json.dumps(call | {"printed": [*map(str, printed)]})
        try:
            print(line, file=server.stdin, flush=True)
            answer = server.stdout.readline()
            assert answer, f"the process that forks has ended with {server.wait()}"
        except BaseException:  # by Ctrl-C or a time limit: its answer would be the next call's
            _server.cache_clear()
            _end(server)
            raise
        said = [path.read_text(errors="replace") for path in printed]
    return subprocess.CompletedProcess([*arguments], int(answer), *said)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the process, which ends with this one."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", *LOADED],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    """Kill the process and the programs that it has forked, one of which may hang."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.communicate()


def _serve() -> None:
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):  # the base installation has no torch
            importlib.import_module(name)
    from tests import judged  # the programs' results, too

    judged.install()
    for line in sys.stdin:
        call = json.loads(line)
        child = os.fork()
        if not child:
            _become(**call)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(source: str, arguments: list[str], env: dict[str, str], printed: list[str]) -> None:
    """Run a program as this process, which then ends, whatever happens."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        files = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in printed]
        for old, new in zip((nothing, *files), range(3), strict=True):
            os.dup2(old, new)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["-c", *arguments]
        exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            code = end.code or 0
        else:
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
