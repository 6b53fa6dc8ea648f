"""Plant every error in turn and ask the claims: who noticed.

First the claims that name the function are asked, all of them, so that the table can say what each
one sees. Where none noticed, the claims that reach the function are asked, until one notices; which
functions a check enters is found by one traced run of it in the sound library. Errors are planted
in worker processes (`worker`): one that does not end, or that takes its process down, is
noticed, and a new process goes on.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..registry import claims as registry
from .planting import PlantedError
from .source_edits import ROOT, find

__all__ = ["LIMIT", "Outcome", "Run", "Sound", "named_by", "run_planted"]

LIMIT = 120.0
"""CPU seconds that one check may use with an error planted; the slowest sound one needs a tenth."""


class Sound(NamedTuple):
    """A claim's check in the library as it is.

    Attributes
    ----------
    stands : bool
        Where it does not, the claim is not asked about errors.
    why : str
    seconds : float
        CPU time of the traced run.
    entered : frozenset of str
        Functions of the package that the check runs, dotted below the package.
    about : str
        The claim's.
    """

    stands: bool
    why: str
    seconds: float
    entered: frozenset[str]
    about: str = "library"


@dataclass(frozen=True)
class Outcome:
    """What became of one planted error.

    Attributes
    ----------
    error : PlantedError
    named : tuple of str
        Claims that name the function: by `covers`, or in the error's own `claims`.
    noticed : tuple of str
        Claims that noticed, of those that were asked.
    silent : tuple of str
        Claims that were asked and noticed nothing.
    why : dict of str to str
        What each claim that noticed said.
    broken : str
        Why the error could not be planted, or what a check raised that says the replacement is no
        working Python, where no claim noticed.
    """

    error: PlantedError
    named: tuple[str, ...]
    noticed: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    why: dict[str, str] | None = None
    broken: str = ""

    @property
    def noticed_by_name(self) -> bool:
        """Return whether a claim that names the function noticed."""
        return bool(set(self.named) & set(self.noticed))


class Run(NamedTuple):
    """All outcomes, in the order of the errors, and the claims as they are without errors."""

    outcomes: tuple[Outcome, ...]
    sound: dict[str, Sound]


def named_by(error: PlantedError, claims: Iterable[registry.Claim]) -> tuple[str, ...]:
    """Return the ids of the claims that cover an error's function, or that the error names.

    A claim that covers a class names its methods.
    """
    found = []
    for claim in claims:
        covered = ("algos." + name.removeprefix(f"{ROOT}.algos.") for name in claim.covers)
        if claim.id in error.claims or any(
            f"{error.target}.".startswith(f"{name}.") for name in covered
        ):
            found.append(claim.id)
    return tuple(found)


def run_planted(
    errors: Sequence[PlantedError],
    jobs: int = 1,
    limit: float = LIMIT,
    progress: Callable[[Outcome], None] | None = None,
    *,
    ids: Iterable[str] | None = None,
    slow: bool = False,
    extra: Sequence[str] = (),
) -> Run:
    """Plant errors one by one and ask the claims.

    Parameters
    ----------
    errors : sequence of PlantedError
    jobs : int
        Worker processes.
    limit : float
        CPU seconds for one check with an error planted; one that needs more is ended, and has
        noticed.
    progress : callable, optional
        Called with each outcome as it comes.
    ids : iterable of str, optional
        Ask these claims only, about the errors in the functions that they name.
    slow : bool
        Ask the slow claims as well.
    extra : sequence of str
        "module:function" of functions that register further claims, for tests.

    Returns
    -------
    Run
    """
    registry.load()
    for name in extra:
        registry.load_from(name)
    wanted = None if ids is None else set(ids)
    claims = [
        c
        for c in registry.ordered(registry.REGISTRY.values())
        if (c.id in wanted if wanted is not None else slow or not c.slow)
    ]
    pairs = [(error, named_by(error, claims)) for error in errors]
    if wanted is not None:
        pairs = [(error, named) for error, named in pairs if named]
        asked = {i for _, named in pairs for i in named}
        claims = [c for c in claims if c.id in asked]
    with _Pool(jobs, limit, extra) as pool:
        replies = pool.map(lambda w, c: w.sound(c.id), claims)
        sound = {c.id: s._replace(about=c.about) for c, s in zip(claims, replies, strict=True)}

        def one(worker: _Worker, pair: tuple[PlantedError, tuple[str, ...]]) -> Outcome:
            error, named = pair
            outcome = worker.ask(Outcome(error, named), _standing(named, sound), first=False)
            if wanted is None and not outcome.noticed and not outcome.broken.startswith("cannot"):
                others = [i for i in _reaching(error, sound) if i not in named]
                outcome = worker.ask(outcome, _standing(others, sound), first=True)
            if progress is not None:
                with pool.lock:
                    progress(outcome)
            return outcome

        outcomes = tuple(pool.map(one, pairs))
    return Run(outcomes, sound)


def _standing(ids: Iterable[str], sound: dict[str, Sound]) -> list[str]:
    """Return the claims that stand without an error, the quickest first."""
    return sorted((i for i in ids if sound[i].stands), key=lambda i: sound[i].seconds)


def _reaching(error: PlantedError, sound: dict[str, Sound]) -> Iterator[str]:
    """Return the claims whose check enters the function, or sees it through its module."""
    place = find(error.target)
    module = place.module.removeprefix(f"{ROOT}.")
    text = place.path.read_text(encoding="utf-8")
    last = place.name.rpartition(".")[2]
    function = re.search(rf"^(\s*@njit.*\n)?\s*(def|class) {last}\b", text, re.M)
    if function is None:  # a constant: whoever enters a module that says its name
        modules = {module, *_modules_with(last, module, place.path)}
    elif function.group(1):  # compiled: the tracer sees who calls from Python only
        modules = {module}
    else:
        modules = set()
    for claim_id, check in sound.items():
        for name in check.entered:
            inside = f"{name}.".startswith(f"{error.target}.")
            if inside or any(name.startswith(f"{m}.") for m in modules):
                yield claim_id
                break


def _modules_with(name: str, module: str, path: Path) -> Iterator[str]:
    """Return the modules of the same layer whose text has a name, dotted below the package."""
    layer = path.parents[module.count(".") - 1]
    for other in layer.rglob("*.py"):
        if re.search(rf"\b{name}\b", other.read_text(encoding="utf-8")):
            yield ".".join((layer.name, *other.relative_to(layer).with_suffix("").parts))


class _Worker:
    """One process at a time, started when it is needed."""

    def __init__(self, limit: float, extra: Sequence[str]) -> None:
        self.limit, self.extra = limit, extra
        self.process: subprocess.Popen[str] | None = None

    def _send(self, task: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Hand a task over; yield replies until the process has nothing more to say."""
        if self.process is None:
            command = [sys.executable, "-m", f"{__package__}.worker", *self.extra]
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            yield json.loads(line)

    def sound(self, claim_id: str) -> Sound:
        for reply in self._send({"do": "sound", "claim": claim_id}):
            seconds = reply.get("seconds", 0.0)
            return Sound(reply["stands"], reply["why"], seconds, frozenset(reply["entered"]))
        return Sound(False, f"the process {self._end()}", 0.0, frozenset())

    def ask(self, outcome: Outcome, ids: Sequence[str], *, first: bool) -> Outcome:
        """Plant an outcome's error for the checks of some claims; return what is known then."""
        noticed, silent = list(outcome.noticed), list(outcome.silent)
        why, broken, rest = dict(outcome.why or {}), outcome.broken, list(ids)
        while rest:
            task = {"do": "plant", "error": asdict(outcome.error), "claims": rest}
            began = ""
            for reply in self._send({**task, "first": first, "limit": self.limit}):
                began = reply.get("began", began)
                if "unplanted" in reply:
                    return replace(outcome, broken=f"cannot be planted: {reply['unplanted']}")
                if "outcome" in reply:
                    which, claim_id = reply["outcome"], reply["claim"]
                    if which == "noticed":
                        noticed.append(claim_id)
                        why[claim_id] = reply["why"]
                    elif which == "broken":
                        broken = broken or f"{claim_id} raised {reply['why']}"
                    else:
                        silent.append(claim_id)
                if "done" in reply:
                    rest = []
                    break
            else:  # the process is gone, in the check that it began last
                ended = self._end()
                if not began:
                    return replace(outcome, broken=f"cannot be planted: the process {ended}")
                noticed.append(began)
                why[began] = ended
                rest = [] if first else rest[rest.index(began) + 1 :]
        if noticed:
            broken = ""
        return replace(
            outcome, noticed=tuple(noticed), silent=tuple(silent), why=why, broken=broken
        )

    def _end(self) -> str:
        """Wait for a process that has stopped talking; say how it ended."""
        assert self.process is not None
        code = self.process.wait()
        self.close()
        if code == -signal.SIGXCPU:
            return f"did not end within {self.limit:g} CPU seconds"
        return f"died with exit code {code}"

    def close(self) -> None:
        if self.process is not None:
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
            self.process.wait()
            self.process = None


class _Pool:
    """Workers that share a list of tasks; each has a thread that waits for it."""

    def __init__(self, jobs: int, limit: float, extra: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self._jobs = jobs
        self._free = [_Worker(limit, extra) for _ in range(jobs)]
        self._all = tuple(self._free)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.close()

    def map(self, task: Callable[[_Worker, Any], Any], items: Sequence[Any]) -> list[Any]:
        def run(item: Any) -> Any:
            with self.lock:
                worker = self._free.pop()
            try:
                return task(worker, item)
            finally:
                with self.lock:
                    self._free.append(worker)

        with ThreadPoolExecutor(self._jobs) as threads:
            return list(threads.map(run, items))
