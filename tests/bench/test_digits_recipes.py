"""Each method's recipe of the digits, as it stands, over its seeds: what it reaches.

Measured on one machine, mean of ACC: SeCu 0.972, CoKe 0.972, ProPos 0.953, GATCluster 0.900,
MI + margin 0.930; k-means on pixels 0.794. The last bits of an epoch differ between processors, and
ACC with them: the bounds below leave room for that, and none for a method that has stopped working.
"""

import statistics

import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.data.samples import load_source
from dualclust.train.loop import train
from dualclust.train.loop.agreement import kmeans_on_pixels

SEEDS = (0, 1, 2)
LEAST = {"secu": 0.95, "coke": 0.95, "propos": 0.88, "gatcluster": 0.84, "mi_margin": 0.86}
BOUNDED = ("secu", "coke")
# Every run of the suite trains one seed, which says whether a method works at all: seeds of the
# last three differ by many points. What they reach is the mean of all seeds.
ONE_SEED = {"secu": 0.95, "coke": 0.95, "propos": 0.70, "gatcluster": 0.70, "mi_margin": 0.70}
RUNS = [
    *(pytest.param(m, SEEDS[:1], least, id=m) for m, least in ONE_SEED.items()),
    *(
        pytest.param(m, SEEDS, least, id=f"{m}-all seeds", marks=pytest.mark.slow)
        for m, least in LEAST.items()
    ),
]


@pytest.fixture(scope="module")
def pixels():
    data = load_source("digits")
    return statistics.mean(kmeans_on_pixels(data, 10, seed=seed).acc for seed in SEEDS)


@pytest.mark.parametrize(("method", "seeds", "least"), RUNS)
def test_the_recipe_of_the_digits(method, seeds, least, pixels, tmp_path):
    recipe, accuracies = read_recipe(f"{method}_digits"), []
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
    assert statistics.mean(accuracies) > least, accuracies
    if len(seeds) > 1:
        assert statistics.mean(accuracies) > pixels + 0.02, accuracies
    pictures = {path.name for path in (tmp_path / "0").glob("*.png")}
    assert pictures >= {"gallery.png", "sizes.png", "curves.png"}
    assert ("attention.png" in pictures) == (method == "gatcluster")
