"""Table 2 of the MI + margin supplement, and the losses of two of its other methods: claim M9."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax, xlogy

from ...algos.losses.information import joint as joint_information
from ...algos.losses.information import self_labeling
from ..references.violations import difference, worst
from ..registry.claims import Status, claim

PAPER = "MI + margin supplement"

# Table 2, STL-10, test accuracy with 10 %, 5 % and 1 % of the labels.
_TABLE_2 = {
    "seeds": (40.27, 36.26, 26.1),
    "MI-D": (47.39, 40.73, 26.54),
    "IIC": (44.73, 33.6, 26.17),
    "SeLa": (44.84, 36.4, 25.08),
    "MI-ADM": (45.83, 40.41, 25.79),
    "ours": (47.20, 41.13, 26.76),
}


@claim(
    id="M9",
    paper=PAPER,
    place="appendix E.4, Table 2",
    statement="Results of weakly supervised classification on STL-10 beside five other methods.",
    hypotheses="No spread and no number of runs given.",
    status=Status.EMPIRICAL,
    derivation="""
    The paper's method is best with 5 % (41.13, MI-D 40.73) and 1 % (26.76, MI-D 26.54) of the
    labels, by 0.40 and 0.22 points, and second with 10 % (47.20, MI-D 47.39). SeLa is below the
    seeds alone with 1 %, MI-ADM too, and IIC with 5 %. Our implementations of the losses behind
    two other rows are listed under "covers"; the results are not reproduced here.

    Check: these statements; and those losses against transcriptions of their formulas, for five
    samples in four clusters, two views that differ, uneven shares and plans, several temperatures.
    """,
    tolerance=1e-12,
    covers=(
        "losses.information.joint.joint_information_loss",
        "losses.information.joint.joint_distribution",
        "losses.information.joint.information_of_joint",
        "losses.information.self_labeling.self_labeling_loss",
        "losses.information.self_labeling.transport_objective",
    ),
)
def ranks_of_table_2() -> float:
    """Return the errors of the order of the table, and of the losses."""
    columns = [{name: row[i] for name, row in _TABLE_2.items()} for i in range(3)]
    best = [max(column, key=lambda name: column[name]) for column in columns]
    below = {(name, i) for i in range(3) for name in _TABLE_2}
    below = {(name, i) for name, i in below if _TABLE_2[name][i] < _TABLE_2["seeds"][i]}
    wrong = sum(a != b for a, b in zip(best, ("MI-D", "ours", "ours"), strict=True))
    leads = [_TABLE_2["ours"][i] - _TABLE_2["MI-D"][i] for i in range(3)]
    wrong += any(abs(a - b) > 1e-9 for a, b in zip(leads, (-0.19, 0.40, 0.22), strict=True))
    wrong += below != {("SeLa", 2), ("MI-ADM", 2), ("IIC", 1)}
    return worst(float(wrong), *_joint_violations(), *_transport_violations())


def _joint_violations() -> list[float]:
    """Return the differences of IIC's loss, and of its two parts, from their formulas."""
    rng, violations = np.random.default_rng(49), []
    for t, weight in ((1.0, 1.0), (0.4, 1.5)):
        scores, others = rng.normal(size=(2, 3, 5, 4))
        p, q = softmax(scores / t, axis=-1), softmax(others / t, axis=-1)
        joint = np.mean(p[..., :, None] * q[..., None, :], axis=1)
        joint = 0.5 * (joint + np.swapaxes(joint, 1, 2))
        share = joint.sum(axis=2)
        marginals = np.log(share)[:, :, None] + np.log(share)[:, None, :]
        exact = np.sum(joint * (np.log(joint) - weight * marginals), axis=(1, 2))
        found = joint_information.joint_distribution(scores, others, temperature=t)
        loss = joint_information.joint_information_loss(
            scores, others, temperature=t, entropy_weight=weight
        )
        violations += [difference(found, joint), difference(loss, -exact)]
    uneven = rng.dirichlet(np.ones(15)).reshape(3, 5) * (np.arange(15).reshape(3, 5) != 7)
    uneven /= uneven.sum()  # neither square nor symmetric, with a zero
    rows, columns = uneven.sum(axis=1), uneven.sum(axis=0)
    exact = xlogy(uneven, uneven).sum() - 1.3 * (xlogy(rows, rows).sum())
    exact -= 1.3 * xlogy(columns, columns).sum()
    found = joint_information.information_of_joint(uneven, entropy_weight=1.3)
    sure = 1e3 * np.eye(4)
    aligned = joint_information.joint_information_loss(sure, sure)
    return [*violations, difference(found, exact), difference(aligned, -math.log(4.0))]


def _transport_violations() -> list[float]:
    """Return the differences of SeLa's two objectives from their formulas."""
    rng, violations = np.random.default_rng(50), []
    for t in (1.0, 0.4):
        scores, q = rng.normal(size=(3, 5, 4)), rng.dirichlet(np.ones(4), size=(3, 5))
        log_p = np.log(softmax(scores / t, axis=-1))
        loss = self_labeling.self_labeling_loss(scores, q, temperature=t)
        violations.append(difference(loss, -np.mean(np.sum(q * log_p, axis=2), axis=1)))
        plan, shares = q / 5.0, rng.dirichlet(np.ones(4))
        linear = np.sum(plan * (math.log(5.0) - log_p), axis=(1, 2))
        for c, sharpness in ((shares, 25.0), (None, 2.0), (shares, math.inf)):
            wanted = np.full(4, 0.25) if c is None else shares
            smooth = np.sum(plan * np.log(plan / (wanted / 5.0)), axis=(1, 2)) / sharpness
            found = self_labeling.transport_objective(
                scores, plan, c, sharpness=sharpness, temperature=t
            )
            violations.append(difference(found, linear + smooth))
    even = self_labeling.transport_objective(np.zeros((2, 2)), 0.5 * np.eye(2), sharpness=25.0)
    return [*violations, difference(even, 2.04 * math.log(2.0))]
