r"""Compare the recipes of all methods with k-means on pixels: same images, several seeds.

ACC, NMI, ARI are means and standard deviations over seeds, of the last epoch of a run of fixed
length; true labels are used for these figures only.

    python benchmarks/recipes.py digits
    python benchmarks/recipes.py mnist --data mnist.npz --seeds 3
    python benchmarks/recipes.py cifar10 --data cifar-10-batches-bin --methods secu propos \\
        --device cuda --set epochs=20 --set execution.step=graph
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import torch

import dualclust
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import Run, train
from dualclust.train.loop.metrics import kmeans_on_pixels

METHODS = ("secu", "coke", "propos", "gatcluster", "mi_margin")
FIGURES = ("acc", "nmi", "ari")


def main() -> None:
    """Print the table as Markdown, and a line of JSON for each run on the way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("name", help="run the recipes METHOD_NAME; for example digits or mnist")
    add("--data", help="source of the images, unless the recipe names a built-in one")
    add("--methods", nargs="*", default=METHODS, help="methods: the part of a recipe before _NAME")
    add("--seeds", type=int, default=3, help="number of seeds (default 3)")
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    options = parser.parse_args()
    changes = [*options.set, *([f"data.source={options.data}"] if options.data else [])]
    recipes = [f"{method}_{options.name}" for method in options.methods]
    configs = {recipe: override(read_recipe(recipe), changes) for recipe in recipes}
    machine = platform.machine()
    if options.device.startswith("cuda"):
        machine = torch.cuda.get_device_name(options.device)
    versions = f"torch {torch.__version__}, dualclust {dualclust.__version__}"
    print(f"{machine}, {torch.get_num_threads()} threads, Python {platform.python_version()}, ")
    print(f"{versions}, {options.seeds} seeds\n")
    table = [
        "| recipe | images | epochs | ACC | NMI | ARI | sizes | bounds | CPU s per run | wall s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    baselines: dict[str, str] = {}
    for recipe, config in configs.items():
        key = str(config.data)
        if key not in baselines:
            baselines[key] = _baseline(config, options.seeds)
            table.append(baselines[key])
        table.append(_row(recipe, config, options.seeds, options.device))
    print("\n".join(["", *table]))


def _baseline(config: RunConfig, seeds: int) -> str:
    data = Run(config, "cpu").data
    started = time.process_time()
    found = [kmeans_on_pixels(data, config.heads.target, seed=s) for s in range(seeds)]
    each = (time.process_time() - started) / seeds
    known = [agreement for agreement in found if agreement is not None]
    figures = _figures([agreement._asdict() for agreement in known])
    return f"| k-means on pixels | {len(data.ids):,} | | {figures} | | | {each:.0f} | |"


def _row(recipe: str, config: RunConfig, seeds: int, device: str) -> str:
    found: list[dict[str, float]] = []
    sizes: list[int] = []
    cpu, wall = time.process_time(), time.perf_counter()
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            result = train(override(config, [f"seed={seed}"]), Path(folder) / "run", device=device)
        found.append(result.metrics[-1])
        sizes += result.prediction.assignment.counts.tolist()
        print(recipe, seed, json.dumps(result.metrics[-1]), flush=True)
    n = len(result.prediction.assignment.labels)
    cpu, wall = (time.process_time() - cpu) / seeds, (time.perf_counter() - wall) / seeds
    return (
        f"| {recipe} | {n:,} | {config.epochs} | {_figures(found)} | {min(sizes)}-{max(sizes)} | "
        f"{result.lower}-{result.upper} | {cpu:.0f} | {wall:.0f} |"
    )


def _figures(found: list[dict[str, float]]) -> str:
    columns = [[record[name] for record in found] for name in FIGURES]
    return " | ".join(f"{statistics.mean(c):.3f} +- {statistics.pstdev(c):.3f}" for c in columns)


if __name__ == "__main__":
    main()
