"""docs/departures.md against the recipes: whom each follows, and every value that it states."""

import re
import tomllib
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

import pytest

from dualclust.cli.train import read_recipe
from tests.train.config.test_recipes import NAMES

PAGE = Path(__file__).parents[3] / "docs" / "departures.md"
OWN = ("_digits", "_mnist")  # no paper has these sets with these networks
# Settings in which releases differ from papers: each recipe that has one needs a row for it.
TRACKED = {
    "secu": ["secu.first_pass", "secu.alpha"],
    "self_label": [],
    "coke": ["coke.center_rule"],
    "propos": [f"propos.{name}" for name in ("view_norm", "ema_after", "psl", "ema_schedule")],
    "gatcluster": [f"gatcluster.{name}" for name in ("window", "losses", "target_eps", "alpha")],
    "mi_margin": ["mi_margin.margin_weight"],
}


def tables():
    """Tables of the page: for each, its header and its rows, as lists of cells."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            found.append(None)
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not found or found[-1] is None:
            found.append((cells, []))
        elif not set(line) <= set("|-"):
            found[-1][1].append(cells)
    return [table for table in found if table is not None]


def expand(cell):
    """Names of the recipes that a cell lists, by name or pattern."""
    patterns = re.findall(r"`([^`]+)`", cell)
    assert patterns, cell
    names = []
    for pattern in patterns:
        matching = [name for name in NAMES if fnmatchcase(name, pattern)]
        assert matching, f"no recipe is called {pattern}"
        names += matching
    assert len(names) == len(set(names)), f"a recipe is listed twice: {cell}"
    return names


FOLLOWS, *DEPARTURES = tables()
ROWS = [row for _, rows in DEPARTURES for row in rows]
STATED = [
    (name, setting.strip("`"), here.strip("`"))
    for recipes, setting, _, _, here, _ in ROWS
    if setting.startswith("`")
    for name in expand(recipes)
]


def value_of(config, setting):
    for part in setting.split("."):
        assert part in {field.name for field in fields(config)}, f"no setting {setting}"
        config = getattr(config, part)
    assert not is_dataclass(config), f"{setting} is a table"
    return list(config) if isinstance(config, tuple) else config


def test_the_tables_are_those_that_are_expected():
    assert FOLLOWS[0] == ["recipes", "follows"]
    for header, rows in DEPARTURES:
        assert header == ["recipes", "setting", "paper", "released", "here", "why"]
        assert rows
    assert len(DEPARTURES) == 6
    assert len(STATED) > 300


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0][:40]} {row[1]}")
def test_no_cell_is_empty_and_no_row_says_nothing(row):
    assert len(row) == 6
    assert all(row)
    assert "undocumented" not in " ".join(row).lower()
    assert expand(row[0])
    assert row[1].startswith("`") == row[4].startswith("`")


@pytest.mark.parametrize(("name", "setting", "here"), STATED, ids=lambda value: str(value))
def test_what_is_stated_is_the_recipe_s_value(name, setting, here):
    expected = tomllib.loads(f"value = {here}")["value"]
    assert value_of(read_recipe(name), setting) == expected


def test_every_recipe_follows_one_thing_and_has_a_row():
    followed = [name for recipes, _ in FOLLOWS[1] for name in expand(recipes)]
    assert sorted(followed) == NAMES
    assert {name for row in ROWS for name in expand(row[0])} == set(NAMES)


def test_no_setting_of_a_recipe_is_stated_twice():
    keys = [(name, setting) for name, setting, _ in STATED]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(OWN)])
def test_settings_that_releases_read_otherwise_have_a_row(name):
    config = read_recipe(name)
    wanted = list(TRACKED[config.method])
    if config.method == "secu" and config.secu.constraint == "size":
        wanted = ["assignment.steps"] if config.assignment.steps != "measured" else []
        wanted = [] if name.endswith("_lt") else wanted
    if config.optim.schedule == "cosine":
        wanted += ["optim.first_step", "optim.cosine_over"]
    if config.optim.name == "lars":
        wanted.append("optim.lars_rate")
    if config.linear is not None:
        wanted.append("linear.lr")
    if config.coke is not None and config.coke.views == "multi":
        wanted.append("coke.crop_weight")
    wanted.append("data.normalization")
    rows = {setting for other, setting, _ in STATED if other == name}
    assert set(wanted) <= rows


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(OWN)])
def test_the_first_lines_of_a_recipe_say_what_it_follows(name):
    text = (files("dualclust.train.recipes") / f"{name}.toml").read_text(encoding="utf-8")
    head = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        assert len(line) <= 100
        head.append(line.removeprefix("#").strip())
    said = " ".join(head)
    follows = next(what for recipes, what in FOLLOWS[1] if name in expand(recipes))
    assert f"Follows {follows}." in said
    assert "docs/departures.md" in said


def test_the_page_is_named_where_recipes_are_described():
    training = (PAGE.parent / "training.md").read_text(encoding="utf-8")
    assert "departures.md" in training
