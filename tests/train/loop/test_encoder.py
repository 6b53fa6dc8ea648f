"""Features of a frozen encoder by stand-ins: when they are believed, computed, written, refused."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import ExecutionConfig
from dualclust.train.data.samples import load_source
from dualclust.train.loop import RunWarning
from dualclust.train.loop import encoder as module
from tests.train.pictures import write_folder

ROWS = torch.arange(15.0).reshape(5, 3)


@pytest.mark.parametrize(("autocast", "close"), [(None, 0.2), (torch.bfloat16, 2.0)])
@pytest.mark.parametrize("n", [3, 20])
def test_features_are_believed_if_some_of_them_are_what_is_computed(n, autocast, close):
    """To two thousandths of the largest, or two hundredths under autocast; one is enough."""
    rows, asked = torch.zeros(n, 2), []
    rows[0, 0] = -100.0
    loader = SimpleNamespace(device="cpu", execution=SimpleNamespace(convert=lambda x: x))
    data = SimpleNamespace(ids=range(n), take=lambda ids: asked.append(ids.tolist()) or rows[ids])

    class Encoder:
        encoder_dim = 2

        def __call__(self, images):
            return images.double()

    encoder = Encoder()
    encoder.autocast = autocast
    last = {3: 2, 20: 17}[n]
    for off, believed in ((0.0, True), (0.99 * close, True), (1.01 * close, False)):
        for sign in (1, -1):
            kept = rows.clone()
            kept[last, 1] += sign * off
            assert module._agree(loader, encoder, data, kept.half()) == believed, off
    assert asked[0] == {3: [0, 1, 2], 20: [0, 2, 5, 7, 10, 12, 15, 17]}[n]
    assert not module._agree(loader, encoder, data, rows[1:])
    assert not module._agree(loader, encoder, data, rows[:, :1])


class Loader:
    """What features are asked of; ``elsewhere``: another rank has none."""

    def __init__(self, features="float32", first=True, elsewhere=False):
        self.config = SimpleNamespace(encoder=EncoderConfig(features=features))
        self.ranks = SimpleNamespace(first=first, any=lambda flag: flag or elsewhere)
        self.passes, self.rows = [], ROWS.double()

    def apply_to_all(self, encoder, **options):
        self.passes.append(options)
        return self.rows


@pytest.fixture
def place(monkeypatch, tmp_path):
    """What lies on disk, and what was done to it."""
    found = SimpleNamespace(kept=None, agrees=True, room=[], written=[], path=tmp_path / "f")
    monkeypatch.setattr(module, "_made_of", lambda *given: {"of": "those"})
    monkeypatch.setattr(module, "feature_file", lambda made_of: found.path)
    monkeypatch.setattr(module, "read_features", lambda path, made_of: found.kept)
    monkeypatch.setattr(module, "_agree", lambda *given: found.agrees)
    monkeypatch.setattr(module, "check_room", lambda *given: found.room.append(given))
    monkeypatch.setattr(module, "write_features", lambda *given: found.written.append(given))
    return found


def features(loader, names=None):
    data = SimpleNamespace(ids=range(5), names=names)
    return module._features(loader, SimpleNamespace(encoder_dim=3), data, "digest")


@pytest.mark.parametrize(("kind", "size"), [("float32", 60), ("float16", 30)])
def test_room_is_looked_for_and_the_first_rank_writes(place, kind, size):
    loader = Loader(kind)
    rows = features(loader)
    assert (str(rows.dtype), rows.tolist()) == (f"torch.{kind}", ROWS.tolist())
    assert place.room == [(place.path, size)]
    [(path, written, made_of)] = place.written
    assert (path, written is rows, made_of) == (place.path, True, {"of": "those"})
    [options] = loader.passes
    assert (options["batch_size"], list(options["data"].ids)) == (64, list(range(5)))
    features(Loader(kind, first=False))
    assert len(place.written) == 1


def test_what_lies_there_is_taken_if_all_ranks_have_it(place):
    place.kept = ROWS + 1
    loader = Loader()
    assert features(loader) is place.kept
    assert (loader.passes, place.room, place.written) == ([], [], [])
    assert features(Loader(elsewhere=True)).tolist() == ROWS.tolist()
    place.agrees = False
    with pytest.warns(RunWarning, match=f"the features in {place.path} are not what the frozen"):
        assert features(Loader()).tolist() == ROWS.tolist()
    assert len(place.written) == 2


@pytest.mark.parametrize(("names", "where"), [(None, "sample 3"), (tuple("abcde"), "d")])
def test_a_sample_of_which_no_number_is_made_is_named(place, names, where):
    loader = Loader()
    loader.rows[3, 1] = torch.nan
    loader.rows[4, 0] = torch.inf
    with pytest.raises(InvalidValueError, match=f"NaN or infinity of {where}, or a number too"):
        features(loader, names)
    assert place.written == []


def test_pictures_that_are_cut_in_another_way_have_other_features(tmp_path):
    data = load_source(write_folder(tmp_path, 3, 1), size=8, decode="views")
    config = SimpleNamespace(
        network=SimpleNamespace(name="small", width=3), execution=ExecutionConfig(), encoder=None
    )
    alone = SimpleNamespace(world_size=1)
    loader = SimpleNamespace(config=config, device=torch.device("cpu"), ranks=alone)
    encoder = SimpleNamespace(own_encoder="", encoder=None)
    crop, squash, again = (
        module._made_of(loader, encoder, data._replace(fit=fit), "digest")
        for fit in ("crop", "squash", "crop")
    )
    assert crop == again
    assert {name for name in crop if crop[name] != squash[name]} == {"input"}
    assert crop["encoder"] == "small of width 3, digest"
