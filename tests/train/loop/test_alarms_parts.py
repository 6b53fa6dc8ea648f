"""What an alarm is judged by: each figure against its definition, each threshold on both sides."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop.alarms import LOOK, Watch, _look, _unrelated, settled
from dualclust.train.methods.base import ParameterGroup

CPU = torch.device("cpu")


def config_of(*changes):
    return override(RunConfig(method="secu"), list(changes))


def watch(n=1000, method=None, batch=32):
    """A watch over n samples, with `epochs=8`: epochs after the second are judged."""
    changes = "epochs=8", "optim.frozen_epochs=0", "optim.warmup_epochs=0", f"batch_size={batch}"
    data = SimpleNamespace(ids=range(n), fetch=lambda ids: ids, finish=lambda rows: rows)
    execution = SimpleNamespace(device=CPU, convert=lambda rows: rows)
    return Watch(config_of(*changes), method, data, execution)


@pytest.mark.parametrize(
    ("epochs", "frozen", "warmup", "expected"),
    [(4, 0, 0, 2), (8, 0, 2, 3), (8, 2, 3, 6), (40, 0, 0, 10), (43, 1, 0, 10), (400, 9, 9, 100)],
)
def test_epochs_until_a_run_has_settled(epochs, frozen, warmup, expected):
    changes = f"optim.frozen_epochs={frozen}", f"optim.warmup_epochs={warmup}"
    assert settled(config_of(f"epochs={epochs}", *changes)) == expected


@pytest.mark.parametrize(("n", "some"), [(10, 10), (256, 256), (600, 256)])
def test_the_probe_is_spread_over_the_samples(n, some):
    assert watch(n).probe_ids.tolist() == [i * n // some for i in range(some)]


# In the steps ------------------------------------------------------------------------------------


def test_the_look_of_an_image_is_its_fields_and_of_a_row_its_parts(rng):
    images = rng.normal(size=(3, 2, 8, 12))
    fields = images.mean(1).reshape(3, 4, 2, 4, 3).mean((2, 4)).reshape(3, LOOK)
    found = _look(torch.from_numpy(images))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), fields, rtol=1e-5, atol=1e-6)
    rows = rng.normal(size=(3, 32))
    parts = rows.reshape(3, LOOK, 2).mean(2)
    np.testing.assert_allclose(_look(torch.from_numpy(rows)).numpy(), parts, rtol=1e-5, atol=1e-6)


def test_the_first_loss_that_is_no_number_is_kept():
    seen = watch(8)
    seen._norm = lambda: torch.ones(())
    ids, view = torch.arange(8), torch.ones(8, LOOK)
    for losses, where in (
        ([1.0, 2.0], ""),
        ([1.0, math.nan, 1.0, math.inf], " at step 2"),
        ([-math.inf], " at step 1"),
        ([0.0], ""),
    ):
        seen.begin()
        for number, loss in enumerate(losses):
            seen.step(number, ids, view, torch.tensor(loss))
        assert seen.where_bad() == where


def test_views_of_two_epochs_are_compared_by_their_covariance(rng):
    """By samples that were seen before, and are finite both times; the trace over its deviation."""
    n, seen = 90, watch(90)
    seen._norm = lambda: torch.ones(())
    then = rng.normal(size=(n, LOOK)).astype(np.float32) + 1
    now = (0.3 * then + rng.normal(size=(n, LOOK)) + 2).astype(np.float32)
    then[5], now[7] = np.nan, np.inf
    unknown = set(range(80, 90)) | {5, 7}  # the last ten come in the second epoch alone
    seen.begin()
    seen.step(0, torch.arange(80), torch.from_numpy(then[:80]), torch.ones(()))
    assert float(seen._relation()[0]) == 0.0
    seen.begin()
    order = rng.permutation(n)
    for number, ids in enumerate(np.split(order, 3)):
        rows = torch.from_numpy(now[ids])
        seen.step(number, torch.from_numpy(ids), rows, torch.ones(()))
    known = [i for i in range(n) if i not in unknown]
    x, y = (rows[known].astype(np.float64) for rows in (then, now))
    x, y = x - x.mean(0), y - y.mean(0)
    chance = math.sqrt(((x.T @ x) * (y.T @ y)).sum() / len(known))
    count, related = seen._relation()
    assert float(count) == len(known)
    assert float(related) == pytest.approx((x * y).sum() / chance, rel=1e-9)
    seen.begin()
    assert float(seen._relation()[0]) == float(seen._relation()[1]) == 0.0


@pytest.mark.parametrize(
    ("count", "related", "says"),
    [(64, 3.9, True), (63, 3.9, False), (64, 4.0, False), (900, -5.0, True), (64, math.nan, False)],
)
def test_too_few_ids_or_a_clear_relation_say_nothing(count, related, says):
    expected = "3.9 standard deviations beyond chance, 64 ids"
    found = _unrelated(float(count), related)
    assert list(found) == ["shuffled ids"] * says
    assert expected in found.get("shuffled ids", expected) or related < 0


# At the end of an epoch --------------------------------------------------------------------------

FINE = {"spread": 1.0, "dead": 1.0, "entropy": 0.5, "prices": 0.0, "reach": 1.0, "growth": 1.0}


def end(seen, epoch, sizes=(500, 500), before=(), **figures):
    """The alarms for these figures of the network."""
    f = {name: torch.tensor(v, dtype=torch.float64) for name, v in {**FINE, **figures}.items()}
    probed = [f[name] for name in ("spread", "dead", "entropy", "prices", "reach")]
    seen._probe_figures = lambda k: probed
    seen._norm, seen.norm = (lambda: 3.0 * f["growth"]), torch.tensor(3.0).double()
    return seen.end(epoch, torch.tensor(sizes), dict(before))


@pytest.mark.parametrize(
    ("name", "figure", "fine", "bad", "words"),
    [
        ("constant features", "spread", 1.0e-5, 0.9e-5, "differ by 9.0e-06 of"),
        ("dead head", "dead", 1.0e-3, 0.9e-3, "differ between samples by 9.0e-04 of"),
        ("uniform predictions", "entropy", 0.9979, 0.9981, "is 99.81% of ln k"),
        ("saturated prices", "prices", 1.0, 1.25, "up to 1.25, scores of a sample by 1"),
        ("exploding weights", "growth", 2.5, 2.75, "grew 2.75 times"),
    ],
)
def test_thresholds_of_the_network(name, figure, fine, bad, words):
    assert end(watch(), 3, **{figure: fine}) == {}
    found = end(watch(), 3, **{figure: bad})
    assert list(found) == [name]
    assert words in found[name]
    early = list(end(watch(), 2, **{figure: bad}))
    assert early == ([name] if figure in ("spread", "dead") else [])


def test_weights_may_grow_tenfold_at_first():
    assert end(watch(), 2, growth=10.0) == {}
    assert list(end(watch(), 2, growth=10.25)) == ["exploding weights"]


@pytest.mark.parametrize(
    ("k", "fine", "bad"), [(2, 975, 976), (3, 950, 951), (20, 950, 951)], ids=["two", "3", "20"]
)
def test_one_label_may_have_so_many(k, fine, bad):
    def sizes(largest):
        return [1] * (k - 2) + [1000 - largest - (k - 2), largest]

    assert end(watch(), 3, sizes(fine)) == {}
    assert end(watch(), 2, sizes(bad)) == {}
    found = end(watch(), 3, sizes(bad))
    assert found == {"one cluster": f"One label has {bad} of 1,000 samples"}


def test_a_cluster_is_lost_if_it_was_empty_before():
    sizes = [0, 0, 400, 600]
    for before in ({}, {"size_min": 1}):
        assert end(watch(), 3, sizes, before) == {}
    found = end(watch(), 3, sizes, {"size_min": 0})
    assert found == {"empty clusters": "2 of 4 clusters have no sample"}
    assert end(watch(), 3, [1, 399, 600], {"size_min": 0}) == {}
    # More clusters than samples: some are empty whatever is done.
    assert list(end(watch(4), 3, [0, 1, 1, 2], {"size_min": 0})) == ["empty clusters"]
    assert end(watch(3), 3, [0, 1, 1, 1], {"size_min": 0}) == {}


def test_a_cause_silences_what_follows_from_it():
    worst = {"spread": 0.0, "dead": 0.0, "entropy": 1.0, "prices": 9.0, "growth": 99.0}
    sizes, before = [0, 1, 999], {"size_min": 0}
    named = []
    for name in ("spread", "dead", None):
        named.append(list(end(watch(), 3, sizes, before, **worst)))
        worst.pop(name, None)
    without = ["exploding weights", "saturated prices"]
    assert named == [
        ["exploding weights", "constant features"],
        ["exploding weights", "dead head"],
        without,
    ]
    worst.pop("growth")
    rest = list(end(watch(), 3, sizes, before, **worst))
    assert rest == ["one cluster", "saturated prices", "uniform predictions"]


# Figures of the network --------------------------------------------------------------------------


class Probed(nn.Module):
    """A method of a fixed encoder, whose logits and prices are given."""

    temperature = 0.5

    def __init__(self, x, logits, prices=None):
        super().__init__()
        self.network = nn.Module()
        self.network.encoder = lambda ids: x[ids]
        self.x, self.logits, self.prices = x, logits, prices
        self.modes = set()

    def features(self, ids):
        self.modes.add(self.network.training)
        return self.x[ids].flatten(1)

    def probe_logits(self, unit):
        assert torch.equal(unit, self.x.flatten(1))
        return self.logits

    def training_prices(self):
        return self.prices


@pytest.mark.parametrize("priced", [False, True])
def test_figures_of_the_probe_are_their_definitions(priced, rng):
    x, z = rng.normal(size=(40, 3, 2)) + 1, 2 * rng.normal(size=(40, 5)) + np.arange(5)
    prices = np.array([-0.5, 0.25, 2.0, 0.0, 1.0]) if priced else None
    given = None if prices is None else torch.from_numpy(prices)
    method = Probed(torch.from_numpy(x), torch.from_numpy(z), given)
    seen = watch(40, method, batch=16)
    found = [float(figure) for figure in seen._probe_figures(5)]
    rows = x.reshape(40, 6)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    apart = z - z.mean(0) - z.mean(1, keepdims=True) + z.mean()
    expected = [
        ((rows - rows.mean(0)) ** 2).sum() / (rows**2).sum(),
        math.sqrt((apart**2).sum() / ((z - z.mean()) ** 2).sum()),
        -(p * np.log(p)).sum(1).mean() / math.log(5),
        2.5 / 0.5 if priced else 0.0,
        np.ptp(z, axis=1).max(),
    ]
    assert found == pytest.approx(expected, rel=1e-10)
    assert method.modes == {False}
    assert method.network.training


def test_without_logits_the_features_are_looked_at(rng):
    x = rng.normal(size=(40, 3, 2)) + 1
    rows = x.reshape(40, 6)
    found = watch(40, Probed(torch.from_numpy(x), None), batch=16)._probe_figures(5)
    spread = ((rows - rows.mean(0)) ** 2).sum() / (rows**2).sum()
    dead = math.sqrt(((rows - rows.mean(0)) ** 2).mean())
    assert [float(f) for f in found] == pytest.approx([spread, dead, 0.0, 0.0, 1.0], rel=1e-10)


def test_nothing_is_divided_by_zero():
    """Of rows and scores that are all 0, or all alike."""
    method = Probed(torch.zeros(40, 3, 2), torch.ones(40, 5))
    found = [float(figure) for figure in watch(40, method)._probe_figures(5)]
    assert found == pytest.approx([0.0, 0.0, 1.0, 0.0, 0.0])


def test_the_norm_is_of_all_parameters_of_all_groups():
    values = ([3.0, 0.0], [4.0]), ([12.0],)
    groups = [ParameterGroup([nn.Parameter(torch.tensor(v)) for v in some]) for some in values]
    seen = watch(8, SimpleNamespace(parameter_groups=lambda: groups))
    assert float(seen._norm()) == 13.0
    seen.begin()
    assert float(seen.norm) == 13.0
    with torch.no_grad():
        for group in groups:
            for p in group.params:
                p.zero_()
    assert 0.0 < float(seen._norm()) < 1e-200
