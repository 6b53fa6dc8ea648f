"""The job files of docs/scale.md: shells parse them, and the commands in them are commands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dualclust.algos.core.errors import DualclustError
from dualclust.cli.main import build_parser
from dualclust.common.ranks import VARIABLES
from dualclust.common.stopping import StoppedError
from dualclust.common.watch import RankLostError

JOBS = Path(__file__).parents[2] / "docs" / "jobs"
VALUES = {"rows": "X", "state": "state", "results": "out", "resume[@]": "--resume"}


def manifest():
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((JOBS / "cluster.yaml").read_text()))


def arguments(script: str) -> list[str]:
    """The words after ``-m dualclust``, with the script's variables filled in."""
    text = script.replace("\\\n", " ").partition("-m dualclust ")[2].splitlines()[0]
    for name, value in VALUES.items():
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return shlex.split(text)


def check_shell(script: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run([bash, "-n"], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_shell_notices_an_error() -> None:
    with pytest.raises(AssertionError):
        check_shell("if true; then echo")


def test_slurm() -> None:
    script = (JOBS / "cluster.sbatch").read_text()
    check_shell(script)
    inner = re.search(r"bash -c '(.*?)'", script, re.S)
    assert inner is not None
    check_shell(inner[1])
    options = build_parser().parse_args(arguments(script))
    assert options.resume
    assert str(options.checkpoint) == "state"
    limits = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", script, re.M))
    assert limits["ntasks-per-node"] == "1"
    assert options.threads == int(limits["cpus-per-task"])


def test_kubernetes() -> None:
    service, job = manifest()
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    script = container["args"][0]
    check_shell(script)
    assert {*VARIABLES, "WORLD_SIZE"} - {"RANK"} <= {*given}
    assert 'export RANK="$JOB_COMPLETION_INDEX"' in script
    spec = job["spec"]
    assert int(given["WORLD_SIZE"]) == spec["completions"] == spec["parallelism"]
    assert spec["completionMode"] == "Indexed"
    name = job["metadata"]["name"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert given["MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert build_parser().parse_args(arguments(script)).resume
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["containerName"] == container["name"]
    errors = [DualclustError, *_all_below(DualclustError)]
    # A rank that was lost, or asked to stop, goes on from its checkpoint.
    final = {error.exit_code for error in errors}
    final -= {RankLostError.exit_code, StoppedError.exit_code}
    assert {*rule["onExitCodes"]["values"]} == final


def _all_below(kind: type) -> list[type]:
    return [c for one in kind.__subclasses__() for c in (one, *_all_below(one))]
