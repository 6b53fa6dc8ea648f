"""Features of a frozen encoder by stand-ins: when they are believed, computed, written, refused."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.train.config.run import ExecutionConfig
from dualclust.train.data.samples import load_source
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
        encoder, encoder_dim = None, 2

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
