"""Each method's recipe of the digits: how it begins, and, over its seeds, what it reaches.

Measured on one machine, mean of ACC: SeCu 0.972, CoKe 0.972, ProPos 0.953, GATCluster 0.900,
MI + margin 0.961; k-means on pixels 0.794. The last bits of an epoch differ between processors, and
ACC with them: the bounds below leave room for that, and none for a method that has stopped working.
"""

import statistics

import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.data.samples import load_source
from dualclust.train.loop import train
from dualclust.train.loop.metrics import kmeans_on_pixels

SEEDS = (0, 1, 2)
LEAST = {"secu": 0.95, "coke": 0.95, "propos": 0.88, "gatcluster": 0.84, "mi_margin": 0.86}
BOUNDED = ("secu", "coke")
# Every run of the suite trains one seed for a tenth or a fifth of the epochs, which says whether a
# method learns at all. Measured after 2 epochs and these: SeCu 0.58 and 0.77, CoKe 0.62 and 0.86,
# ProPos 0.70 and 0.80, GATCluster 0.23 and 0.63, MI + margin 0.55 and 0.83. What recipes reach is
# the mean of all seeds, after all epochs.
FIVE, SIX, TWELVE = (
    ("epochs=5", "optim.warmup_epochs=1"),
    ("epochs=6", "optim.warmup_epochs=1"),
    ("epochs=12", "optim.warmup_epochs=2"),
)
BEGINNING = {
    "secu": (FIVE, 0.65),
    "coke": (SIX, 0.75),
    "propos": (SIX, 0.73),
    "gatcluster": (TWELVE, 0.4),
    "mi_margin": (SIX, 0.7),
}
LATER = ("secu", "propos", "gatcluster")
"""Their beginnings take longest: `make slow` has them, with all seeds of all methods.

CI trains SeCu on the digits as well, by the demo.
"""
RUNS = [
    *(
        pytest.param(m, SEEDS[:1], *short, id=m, marks=[pytest.mark.slow] * (m in LATER))
        for m, short in BEGINNING.items()
    ),
    *(
        pytest.param(m, SEEDS, (), least, id=f"{m}-all seeds", marks=pytest.mark.slow)
        for m, least in LEAST.items()
    ),
]


def of_pixels():
    """ACC of k-means on pixels, the mean over the seeds."""
    data = load_source("digits")
    return statistics.mean(kmeans_on_pixels(data, 10, seed=seed).acc for seed in SEEDS)


@pytest.mark.parametrize(("method", "seeds", "changes", "least"), RUNS)
def test_the_recipe_of_the_digits(method, seeds, changes, least, tmp_path):
    recipe, accuracies = override(read_recipe(f"{method}_digits"), changes), []
    for seed in seeds:
        config = override(recipe, [f"seed={seed}", f"evaluation.every={recipe.epochs}"])
        result = train(config, tmp_path / str(seed))
        accuracies.append(result.metrics[-1]["acc"])
        found = result.prediction.assignment
        assert found.violation == 0
        if method in BOUNDED:
            assert (result.lower, result.upper) == (162, 197)
            assert result.lower <= int(found.counts.min())
            assert int(found.counts.max()) <= result.upper
        if method == "mi_margin":  # it has no bounds: without restarts seed 0 loses a cluster
            assert int(found.counts.min()) > 0
    assert statistics.mean(accuracies) > least, accuracies
    if len(seeds) > 1:
        assert statistics.mean(accuracies) > of_pixels() + 0.02, accuracies
    pictures = {path.name for path in (tmp_path / "0").glob("*.png")}
    assert pictures >= {"gallery.png", "sizes.png", "curves.png"}
    assert ("attention.png" in pictures) == (method == "gatcluster")
