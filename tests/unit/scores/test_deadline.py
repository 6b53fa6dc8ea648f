"""When a deadline has come, by its clock."""

import numpy as np

from dualclust.algos.scores.deadline import Deadline, deadline_of, is_over
from dualclust.algos.scores.sources import score_source


def test_a_deadline_comes_by_its_clock():
    now = 0.0
    deadline = Deadline(2.0, clock=lambda: now)
    assert deadline_of(deadline) is deadline
    group = score_source(np.zeros((3, 2))).group
    assert not deadline.is_late()
    assert not is_over(deadline, group, like=np.zeros(1))
    assert not is_over(None, group, like=np.zeros(1))
    now = 2.0
    assert deadline.is_late()
    assert is_over(deadline, group, like=np.zeros(1))
