"""GATCluster's figures: their definitions, tables and tests, and the memory: claims G13 to G18."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
from numpy.typing import NDArray

from ...algos.clustering import metrics
from ..references.violations import difference, excess, unless, worst
from ..registry.claims import Status, claim
from . import targets

_HERE = "dualclust.proofs.gatcluster.tables."
_TARGETS = "dualclust.proofs.gatcluster.targets."

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Table 1, (ACC, NMI, ARI): the best figure of all other methods, column by column, and ours.
STL10 = {"best of others": (0.499, 0.376, 0.262), "GATCluster": (0.583, 0.446, 0.363)}
IMAGENET_10 = {
    "DCCM": (0.710, 0.608, 0.555),
    "GATCluster": (0.739, 0.594, 0.552),
    "GATCluster-128": (0.762, 0.609, 0.572),
}
# Table 2, STL10, ten runs: best, mean and standard deviation of ACC.
ABLATION = {
    "Color": (0.556, 0.517, 0.034),
    "No TI": (0.576, 0.546, 0.016),
    "No SM": (0.579, 0.529, 0.029),
    "No AM": (0.539, 0.494, 0.020),
    "Full setting": (0.583, 0.537, 0.033),
}
# Table 3, ImageNet-10, five runs: mean and standard deviation of ACC by image size.
IMAGE_SIZE = {96: (0.708, 0.031), 128: (0.735, 0.020), 160: (0.669, 0.033), 192: (0.608, 0.067)}
# Table 4, ImageNet-10, five runs: (best, mean, deviation) of ACC, best and mean of NMI.
RESOLUTION = {
    2: ((0.746, 0.666, 0.050), (0.625, 0.538)),
    4: ((0.706, 0.678, 0.017), (0.539, 0.528)),
    6: ((0.762, 0.735, 0.020), (0.609, 0.592)),
    8: ((0.742, 0.719, 0.018), (0.618, 0.594)),
    10: ((0.671, 0.645, 0.020), (0.549, 0.520)),
}


def _contingency(found: Ints, true: Ints) -> Floats:
    table = np.zeros((int(found.max()) + 1, int(true.max()) + 1))
    for u, v in zip(found, true, strict=True):
        table[u, v] += 1.0
    return table


def _accuracy(found: Ints, true: Ints) -> float:
    """Return A13 with the best map by enumeration."""
    k = max(int(found.max()), int(true.max())) + 1
    maps = (np.asarray(p) for p in itertools.permutations(range(k)))
    return max(float(np.mean(p[found] == true)) for p in maps)


def _information(found: Ints, true: Ints) -> tuple[float, float, float]:
    """Return the numerator of A15 and the two entropies of its denominator, each over N."""
    table, n = _contingency(found, true), found.shape[0]
    rows, columns = np.sum(table, axis=1), np.sum(table, axis=0)
    mutual = sum(
        table[i, j] * math.log(n * table[i, j] / (rows[i] * columns[j]))
        for i, j in np.ndindex(*table.shape)
        if table[i, j] > 0
    )
    entropies = [-sum(float(c) * math.log(c / n) for c in s if c > 0) / n for s in (rows, columns)]
    return mutual / n, entropies[0], entropies[1]


def _adjusted_rand(found: Ints, true: Ints) -> float:
    """Return A16."""
    table = _contingency(found, true)

    def pairs(counts: Floats) -> float:
        return float(np.sum(counts * (counts - 1.0) / 2.0))

    both, n = pairs(table), found.shape[0]
    rows, columns = pairs(np.sum(table, axis=1)), pairs(np.sum(table, axis=0))
    expected = rows * columns / (n * (n - 1) / 2.0)
    return float((both - expected) / (0.5 * (rows + columns) - expected))


@claim(
    id="G13",
    paper="GATCluster",
    place="Appendix E, A13 to A16",
    statement="Definitions of ACC, NMI and ARI.",
    hypotheses="""
    0 log 0 = 0; a value for 0 / 0, where a partition has one part: 1 for equal ones, else 0.
    """,
    status=Status.HOLDS,
    derivation="""
    They are the usual definitions. A15 divides by the *geometric* mean of the entropies; the
    default of scikit-learn, which later papers report, is the arithmetic one. The geometric mean is
    the smaller, so that A15 is the larger figure, and figures of the two kinds do not compare. Both
    are 0 / 0 for a single cluster, as A16 is: after total collapse the figures are a convention.

    Check: each figure from the table of counts, ACC by trying every map, with more, as many and
    fewer clusters than classes; AMI, which the paper does not use, by all orders of six samples.
    """,
    tolerance=1e-12,
    covers=("clustering.metrics.clustering_scores",),
)
def check_scores() -> float:
    """Return the violation of the three definitions, of the order of both NMI, and of 0 / 0."""
    violations = []
    for seed in range(8):
        rng, k = np.random.default_rng(seed), 2 + seed % 3
        true = np.append(np.arange(k), rng.integers(0, k, size=60))
        noise = rng.random(true.shape[0]) < 0.15 * (seed % 5)
        # More, as many and fewer clusters than classes.
        found = np.where(
            noise, rng.integers(0, 3, size=true.shape[0]), (true + 1) % (2 + seed // 3)
        )
        scores = metrics.clustering_scores(found, true)
        mutual, first, second = _information(found, true)
        violations += [
            difference(scores.acc, _accuracy(found, true)),
            difference(scores.nmi_geometric, mutual / math.sqrt(first * second)),
            difference(scores.nmi, mutual / (0.5 * (first + second))),
            difference(scores.ari, _adjusted_rand(found, true)),
            excess(scores.nmi, scores.nmi_geometric),
        ]
    true, found = np.asarray([0, 0, 0, 1, 1, 2]), np.asarray([1, 1, 0, 0, 0, 2])
    mutual, first, second = _information(found, true)
    shuffled = [_information(found, true[list(p)])[0] for p in itertools.permutations(range(6))]
    chance = math.fsum(shuffled) / len(shuffled)
    ami = (mutual - chance) / (0.5 * (first + second) - chance)
    violations.append(difference(metrics.clustering_scores(found, true).ami, ami))
    one, two = np.zeros(8, dtype=np.int64), np.arange(8) % 2
    alike, unlike = (metrics.clustering_scores(one, other) for other in (one, two))
    violations += [difference(alike, 1.0), difference(unlike[1:], 0.0), difference(unlike.acc, 0.5)]
    return worst(*violations)


@claim(
    id="G14",
    paper="GATCluster",
    place="Section 4.5, Table 1",
    statement="""
    Under the same conditions STL10 improves by about 8%, 7% and 10% in ACC, NMI and ARI over the
    best of the others; on ImageNet-10 ACC improves by 5% over DCCM.
    """,
    hypotheses="Percentage points. Best runs, chosen with the true labels.",
    status=Status.ERRATUM,
    derivation="""
    STL10: 8.4, 7.0 and 10.1 points, right. ImageNet-10: the conditions are not the same. With the
    others' 96 x 96 images the gain is 2.9 points in ACC, and NMI and ARI are lower than DCCM's, by
    1.4 and 0.3; 5.2 points it is with images of 128 x 128.
    """,
    tolerance=1e-9,
    mutations=(_HERE + "STL10", _HERE + "IMAGENET_10"),
    about="print",
)
def check_gains() -> float:
    """Return how far the gains, in points, are from those stated."""
    gains = np.subtract(STL10["GATCluster"], STL10["best of others"])
    same = np.subtract(IMAGENET_10["GATCluster"], IMAGENET_10["DCCM"])
    larger = np.subtract(IMAGENET_10["GATCluster-128"], IMAGENET_10["DCCM"])
    return worst(
        difference(100.0 * gains, (8.4, 7.0, 10.1)),
        difference(100.0 * same, (2.9, -1.4, -0.3)),
        difference(100.0 * larger[0], 5.2),
    )


def _welch(a: tuple[float, float], b: tuple[float, float], n: int) -> float:
    """Return the two-sided p of Welch's test for two (mean, sample deviation) of n runs each."""
    from scipy import stats

    return float(stats.ttest_ind_from_stats(*a, n, *b, n, equal_var=False).pvalue)


@claim(
    id="G15",
    paper="GATCluster",
    place="Section 4.6, Table 2",
    statement="The best accuracy is achieved when all tasks are used, with grayscale images.",
    hypotheses="""
    "Best" is the best of ten runs, picked by the true labels; it is not so of the mean.
    """,
    status=Status.ERRATUM,
    derivation="""
    Best of ten: 0.583, right. On average the model *without* transformation invariance is ahead,
    0.546 against 0.537; by Welch's test the two cannot be told apart (p = 0.45), so that the table
    shows no effect of that task. That of attention is real: 4.3 points in the mean, p = 0.003. The
    best of ten grows with the spread of the runs and is no estimate of what a user gets.
    """,
    tolerance=1e-9,
    mutations=(_HERE + "ABLATION", _HERE + "_welch"),
    about="print",
)
def check_ablation() -> float:
    """Return how far the order of means and the p-values are from those stated."""
    full = ABLATION["Full setting"]
    p = {name: _welch(full[1:], row[1:], 10) for name, row in ABLATION.items()}
    return worst(
        excess(max(row[0] for row in ABLATION.values()), full[0]),
        difference(max(ABLATION, key=lambda name: ABLATION[name][1]) == "No TI", True),
        difference(round(p["No TI"], 2), 0.45),
        difference(round(p["No AM"], 3), 0.003),
        difference(full[0] - ABLATION["No AM"][0], 0.044),
        difference(full[1] - ABLATION["No AM"][1], 0.043),
    )


def _peak(size: int) -> int:
    """Return the peak of bytes allocated while label features of 2,048 images come in parts."""
    rng = np.random.default_rng(0)
    images, first, second = (rng.normal(size=s) for s in ((2048, 32), (32, 512), (512, 8)))
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    targets._in_parts(images, first, second, size)
    _, peak = tracemalloc.get_traced_memory()
    if not tracing:
        tracemalloc.stop()
    return peak - before


@claim(
    id="G16",
    paper="GATCluster",
    place="Sections 3.4 and 4.2",
    statement="Two-step training is memory-efficient, and works for large images.",
    hypotheses="Activations outweigh the M label features.",
    status=Status.EMPIRICAL,
    derivation="""
    Step 1 keeps k numbers per image and the activations of m_1 images at a time, step 2 those of
    m_2: peak memory is O(M k + max(m_1, m_2) A) with A the activations of one image, instead of
    O(M A). How much that is on a device is a measurement; a small network stands in for it here.
    The library's own loop over parts runs on torch.
    """,
    mutations=(_TARGETS + "_in_parts",),
    about="paper",
)
def check_memory() -> float:
    """Return by how much parts of 32 of 2,048 images need more than 1/16 of the memory of all."""
    return excess(16.0 * _peak(32), _peak(2048))


@claim(
    id="G17",
    paper="GATCluster",
    place="Section 4.7, Table 3",
    statement="Performance is significantly improved from images of 96 x 96 to 128 x 128.",
    hypotheses="Five runs each, and another network for each size.",
    status=Status.NOT_ESTABLISHED,
    derivation="""
    "Significantly" is a statement on the five runs: 0.708 with deviation 0.031 against 0.735 with
    0.020. The standard error of the difference is 0.0165, t = 1.64 with 6.8 degrees of freedom,
    p = 0.15 by Welch's test: runs of equally good networks differ that much one time in seven. So
    five runs do not establish the improvement; nor do they show that there is none. The other sizes
    are worse, 160 x 160 and 192 x 192 by 0.066 and 0.127.
    """,
    tolerance=1e-9,
    mutations=(_HERE + "IMAGE_SIZE", _HERE + "_welch"),
    about="print",
)
def check_image_size() -> float:
    """Return how far the p-value is from 0.15, and the two other gaps from theirs."""
    p = _welch(IMAGE_SIZE[96], IMAGE_SIZE[128], 5)
    gaps = [IMAGE_SIZE[128][0] - IMAGE_SIZE[size][0] for size in (160, 192)]
    return worst(difference(round(p, 2), 0.15), excess(0.05, p), difference(gaps, (0.066, 0.127)))


@claim(
    id="G18",
    paper="GATCluster",
    place="Section 4.8, Table 4",
    statement="The attention resolution of 6 x 6 achieves the best results.",
    hypotheses="In ACC and ARI; not in NMI.",
    status=Status.ERRATUM,
    derivation="""
    An experiment, whose table contradicts the sentence in part: in NMI 8 x 8 has the better mean
    (0.594 against 0.592) and both 2 x 2 and 8 x 8 the better best run (0.625 and 0.618 against
    0.609). In ACC 6 x 6 is ahead of 8 x 8 by 1.6 points, p = 0.22 by Welch's test with five runs
    each. What the table does show is that 4 x 4 and 10 x 10 are worse (p below 0.01).

    One could hold that a sentence on training runs is empirical and has no verdict but a repetition
    of the runs. We call this one an erratum, because it can be judged without any run: it says
    "the best results" of a table, printed beside it, in which another row has the better NMI. The
    repair is to name the figure: the best ACC and ARI.
    """,
    tolerance=1e-9,
    mutations=(_HERE + "RESOLUTION", _HERE + "_welch"),
    about="print",
)
def check_resolution() -> float:
    """Return how far order and p-values are from those stated."""
    accuracy = {size: row[0] for size, row in RESOLUTION.items()}
    best, mean = ({s: RESOLUTION[s][1][i] for s in RESOLUTION} for i in (0, 1))
    p = {size: _welch(accuracy[6][1:], row[1:], 5) for size, row in accuracy.items()}
    return worst(
        unless(max(accuracy, key=lambda s: accuracy[s][1]) == 6),
        unless(max(accuracy, key=lambda s: accuracy[s][0]) == 6),
        unless(max(mean, key=lambda s: mean[s]) == 8),
        unless(sorted(best, key=lambda s: -best[s])[:3] == [2, 8, 6]),
        difference(round(p[8], 2), 0.22),
        excess((p[4], p[10]), 0.01),
    )
