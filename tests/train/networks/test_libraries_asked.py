"""What is asked of timm and of transformers, and what is read off their answers."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import CheckpointError, UsageError
from dualclust.train.networks import libraries
from dualclust.train.networks.libraries import LIBRARIES, Pixels, library_of, rows_of

HALF = (0.5,) * 3
X = torch.zeros(2, 3, 4, 4)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("timm/resnet18", ("timm", "resnet18")),
        ("hf/facebook/dinov2", ("hf", "facebook/dinov2")),
        ("hf/", None),
        ("hf", None),
        ("other/resnet18", None),
        ("resnet18", None),
    ],
)
def test_the_library_is_what_stands_before_the_slash(name, found):
    assert library_of(name) == found


@pytest.mark.parametrize(
    ("said", "pixels"),
    [
        ({}, Pixels((224, 224), HALF, HALF)),
        ({"size": 96}, Pixels((96, 96), HALF, HALF)),
        ({"size": {"height": 8, "width": 6}}, Pixels((8, 6), HALF, HALF)),
        ({"size": {"shortest_edge": 256}}, Pixels((256, 256), HALF, HALF)),
        ({"size": {"longest_edge": 9}}, Pixels((224, 224), HALF, HALF)),
        ({"size": 96, "crop_size": 80}, Pixels((80, 80), HALF, HALF)),
        (
            {"size": 96, "crop_size": {"height": 80, "width": 70}, "do_center_crop": True},
            Pixels((80, 70), HALF, HALF),
        ),
        ({"size": 96, "crop_size": 80, "do_center_crop": False}, Pixels((96, 96), HALF, HALF)),
        ({"crop_size": 80, "do_center_crop": False}, Pixels((224, 224), HALF, HALF)),
        (
            {"size": 8, "image_mean": [1, 2, 3], "image_std": [4, 5, 6]},
            Pixels((8, 8), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)),
        ),
        (
            {"size": 8, "do_normalize": False, "image_mean": [1, 2, 3]},
            Pixels((8, 8), (0.0,) * 3, (1.0,) * 3),
        ),
        ({"size": 8, "do_normalize": True}, Pixels((8, 8), HALF, HALF)),
    ],
)
def test_pixels_of_an_image_processor(said, pixels):
    assert libraries._hf_pixels(said) == pixels


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"hidden": 8, "layers": [1, {"size": 2}], "model_type": "vit"}, ""),
        ({"backbone": None, "use_timm_backbone": False, "model_args": {}}, ""),
        ({"a": "timm", "model_type": "my_timm"}, ""),
        ({"a": [[{"b": {"backbone": "resnet18"}}]]}, "backbone = 'resnet18'"),
        ({"first": {"x": 1}, "auto_map": {"y": 2}}, "auto_map = {'y': 2}"),
        ({"inner": {"model_type": "timm_wrapper"}}, "model_type = 'timm_wrapper'"),
        ("backbone", ""),
        (None, ""),
        ([], ""),
    ],
)
def test_what_leads_to_other_places_is_found_at_any_depth(said, found):
    assert libraries._foreign(said) == found


def test_a_description_leaves_places_and_private_settings_out():
    said = {"_name": 1, "auto_map": 2, "attn_implementation": 3, "width": 4, "a_b": 5}
    said |= {"quantization_config": 6, "transformers_version": "7"}
    assert libraries._described(said) == {"width": 4, "a_b": 5}


class Named(nn.Module):
    """A model of transformers with one parameter, inside another module, of tokens in order."""

    config = "described"

    def __init__(self, name):
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_parameter(name, nn.Parameter(torch.zeros(1)))

    def forward(self, pixel_values):
        return SimpleNamespace(last_hidden_state=torch.arange(12.0).reshape(1, 4, 3))


@pytest.mark.parametrize(
    ("name", "token"), [("cls_token", True), ("class_embedding", True), ("my_cls_token", False)]
)
def test_a_class_token_is_known_by_its_name_wherever_it_lies(name, token):
    expected = [[0.0, 1.0, 2.0]] if token else [[4.5, 5.5, 6.5]]
    assert rows_of(Named(name), X).tolist() == expected


def test_models_of_images_and_text_give_the_features_of_images():
    rows = torch.ones(2, 5)

    def model(answer):
        return SimpleNamespace(
            get_image_features=lambda pixel_values: answer if pixel_values is X else None
        )

    assert rows_of(model(rows), X) is rows
    assert rows_of(model(SimpleNamespace(pooler_output=rows)), X) is rows
    assert rows_of(lambda images: rows if images is X else None, X) is rows


@pytest.fixture
def timm(monkeypatch):
    """What was asked of timm."""
    asked = []

    def create_model(name, **options):
        asked.append((name, options))
        return nn.Identity()

    said = {"input_size": (3, 8, 6), "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    parts = {
        "": SimpleNamespace(create_model=create_model),
        "timm.data": SimpleNamespace(resolve_model_data_config=lambda module: said),
    }
    for module, part in parts.items():
        monkeypatch.setitem(sys.modules, module or "timm", part)
    return asked


def test_timm_is_asked_for_what_has_learned_unless_that_lies_here(timm):
    for place, learned in (("", True), ("", False), ("w.safetensors", True)):
        found = LIBRARIES["timm"].build("tiny", place, learned)
        assert found.pixels == Pixels((8, 6), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
        assert found.architecture == ""
    LIBRARIES["timm"].rebuild("tiny", "")
    assert timm == [
        ("tiny", {"pretrained": pretrained, "num_classes": 0})
        for pretrained in (True, False, False, False)
    ]


@pytest.fixture
def hf(monkeypatch):
    """What was asked of transformers."""
    asked = []

    def ask(what, answer):
        def call(*given, **options):
            asked.append((what, given, options))
            return answer

        return call

    said = SimpleNamespace(to_dict=lambda: {"width": 4, "_path": "/here", "b": 1})
    model = SimpleNamespace(config=said)
    library = SimpleNamespace(
        AutoModel=SimpleNamespace(
            from_pretrained=ask("learned", model), from_config=ask("random", model)
        ),
        AutoConfig=SimpleNamespace(
            from_pretrained=ask("config", "settings"), for_model=ask("for_model", "described")
        ),
        ImageProcessingMixin=SimpleNamespace(
            get_image_processor_dict=ask("processor", ({"size": 8}, {}))
        ),
    )
    for module in ("transformers", "transformers.image_processing_base"):
        monkeypatch.setitem(sys.modules, module, library)
    return asked


def test_transformers_reads_safetensors_and_runs_no_code_of_others(hf, tmp_path):
    safe = {"trust_remote_code": False}
    for place in ("", str(tmp_path)):
        where = place or "some/model"
        found = LIBRARIES["hf"].build("some/model", place, True)
        assert hf == [
            ("learned", (where,), {"use_safetensors": True, **safe}),
            ("processor", (where,), {}),
        ]
        hf.clear()
        LIBRARIES["hf"].build("some/model", place, False)
        assert hf == [
            ("config", (where,), safe),
            ("random", ("settings",), safe),
            ("processor", (where,), {}),
        ]
        hf.clear()
    assert found.pixels == Pixels((8, 8), HALF, HALF)
    assert found.architecture == '{"b": 1, "width": 4}'
    LIBRARIES["hf"].rebuild("some/model", json.dumps({"model_type": "vit", "_path": "x"}))
    assert hf == [("for_model", (), {"model_type": "vit"}), ("random", ("described",), safe)]
    with pytest.raises(UsageError, match="must be a folder that transformers has written"):
        LIBRARIES["hf"].build("some/model", str(tmp_path / "gone"), True)


def failing(error):
    with libraries._of_library("timm", "x"):
        raise error


def test_errors_of_ours_are_told_as_they_are():
    with pytest.raises(CheckpointError, match=r"^as it is$"):
        failing(CheckpointError("as it is"))
    words = r"^timm cannot build the encoder 'x': OSError: no such\. To fix"
    with pytest.raises(UsageError, match=words):
        failing(OSError("no such\nline after line"))
