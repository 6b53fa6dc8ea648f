"""Ranks that the launcher of PyTorch starts: the files of one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cli.main import main
from tests.cli.cluster_files import listing

pytest.importorskip("torch")


@pytest.mark.slow
def test_torchrun(tmp_path) -> None:
    """As on a machine of one's own; torchrun names the ranks."""
    rows = tmp_path / "small.npy"
    np.save(rows, np.random.default_rng(0).normal(size=(MOST_ROWS + 5, 8)))
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    command += ["-m", "dualclust", "cluster", str(rows), "-k", "4"]
    done = subprocess.run(
        [*command, "--timeout", "1200", "--out", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written to") == 1
    one = ["cluster", str(rows), "-k", "4", "--out", str(tmp_path / "one")]
    assert main(one) == 0
    assert listing(tmp_path / "two") == listing(tmp_path / "one")
