"""What files of strangers may promise: each limit on both sides."""

import tomllib

import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.common.untrusted import (
    MOST_DOTS,
    MOST_ENTRIES,
    MOST_PACKED,
    MOST_TEXT,
    SMALL,
    packed_too_much,
    parse_json,
    parse_toml,
    read_toml,
    refuse,
)


def test_limits_are_those_that_the_pages_say():
    assert (MOST_PACKED, SMALL) == (250, 64 * 2**20)
    assert (MOST_ENTRIES, MOST_TEXT, MOST_DOTS) == (16_384, 16 * 2**20, 100)


@pytest.mark.parametrize(
    ("promised", "there", "too_much"),
    [
        (SMALL, 1, False),
        (SMALL + 1, 1, True),
        (MOST_PACKED * 10**6, 10**6, False),
        (MOST_PACKED * 10**6 + 1, 10**6, True),
    ],
)
def test_what_packs_too_well(promised, there, too_much):
    assert packed_too_much(promised, there) is too_much


def test_a_refusal_has_four_parts():
    with pytest.raises(InvalidValueError) as caught:
        refuse("X", "is odd", "It must be even", "add 1")
    assert str(caught.value) == "X is odd. It must be even. To fix this, add 1"
    with pytest.raises(InvalidTypeError, match="X is odd"):
        refuse("X", "is odd", "It must be even", "add 1", InvalidTypeError)


def test_settings_are_not_read_if_they_are_far_too_long(tmp_path):
    path = tmp_path / "settings.toml"
    text = "a = 'é'\n".encode()
    path.write_bytes(text.ljust(2**24))
    assert read_toml(path) == {"a": "é"}
    path.write_bytes(text.ljust(2**24 + 1))
    with pytest.raises(ValueError, match="16777217 bytes are too many for settings"):
        read_toml(path)


def test_names_in_a_row_are_counted_before_they_are_parsed():
    """A parser of TOML takes hours for a few megabytes of them."""
    for text in ("{} = 1", "[{}]", "[[{}]]", "b = {{ {} = 1 }}", "b = {{ c = 1, {} = 1 }}"):
        for name in ("a", "-", '","', "'='", '"\\""', ' "." '):
            deep = text.format(".".join([name] * (MOST_DOTS + 1)))
            assert parse_toml(deep) == tomllib.loads(deep)
            for n in (MOST_DOTS + 2, 10**5):
                with pytest.raises(ValueError, match="nested too deeply"):
                    parse_toml(text.format(".".join([name] * n)))
    for text in ("." * 1000, "../" * 1000, "1.5 " * 1000):  # no names
        assert parse_toml(f"# {text}\na = '{text}'") == {"a": text}
    text = "1"
    for _ in range(150):  # the parser follows, but who shows what it has found cannot
        text = f"{{ {'.'.join('a' * MOST_DOTS)} = {text} }}"
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml(f"a = {text}")
    assert len(parse_toml(f"a = [{', '.join(['1.5'] * 1000)}]")["a"]) == 1000


def test_depth_and_repeated_names_are_said():
    assert parse_json(b'{"a": {"b": 1}, "b": [2]}') == {"a": {"b": 1}, "b": [2]}
    with pytest.raises(ValueError, match=f"the name '{'n' * 60}' comes twice"):
        parse_json(f'{{"{"n" * 70}": 1, "{"n" * 70}": 2}}')
    for parse, text in ((parse_json, "[" * 100_000), (parse_toml, "a = " + "[" * 100_000)):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse(text)
