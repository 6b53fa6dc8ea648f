"""Headers of tensors of strangers: types, places and lengths, each wrong in one way."""

import json

import pytest

from dualclust.common.tensor_headers import LONGEST_HEADER, Stored, parse_tensor_header


def tensor(kind="F32", shape=(2, 3), begin=0, end=24):
    return {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}


def parsed(n_bytes, **entries):
    return parse_tensor_header(json.dumps(entries).encode(), n_bytes)


@pytest.mark.parametrize(
    ("kinds", "size"),
    [
        ("F64 I64 U64 C64", 8),
        ("F32 I32 U32", 4),
        ("F16 BF16 I16 U16", 2),
        ("I8 U8 BOOL F8_E4M3 F8_E5M2 F8_E8M0", 1),
    ],
)
def test_a_number_of_each_type_has_so_many_bytes(kinds, size):
    for kind in kinds.split():
        found = parsed(6 * size, x=tensor(kind, end=6 * size))
        assert found == ({}, {"x": Stored(kind, (2, 3), 0)})
        with pytest.raises(ValueError, match=rf"offsets 0 to {6 * size + 1} for {6 * size} bytes"):
            parsed(6 * size + 1, x=tensor(kind, end=6 * size + 1))


def test_tensors_lie_one_after_the_other_in_any_order_of_names():
    later, scalar = tensor("F32", (3,), 8, 20), tensor("F64", (), 0, 8)
    about, found = parsed(20, __metadata__={"a": "b"}, x=later, y=scalar)
    assert about == {"a": "b"}
    assert found == {"x": Stored("F32", (3,), 8), "y": Stored("F64", (), 0)}


def test_a_type_of_part_of_a_byte_is_left_to_who_knows_it():
    assert parsed(3, x=tensor("F4", (6,), 0, 3))[1] == {"x": Stored("F4", (6,), 0)}
    assert parsed(0, x=tensor("F4", (0,), 0, 0))[1] == {"x": Stored("F4", (0,), 0)}
    with pytest.raises(ValueError, match="its tensor 'x' ends before it begins"):
        parsed(3, x=tensor("F4", (6,), 4, 3))


@pytest.mark.parametrize(
    ("entries", "n_bytes", "words"),
    [
        ({"x": tensor()}, 25, "declare 24 bytes, and 25 are there"),
        ({"x": tensor(begin=4, end=28)}, 24, "overlap, or leave a gap, at byte 0"),
        (
            {"x": tensor(), "y": tensor(begin=28, end=52)},
            48,
            "overlap, or leave a gap, at byte 24",
        ),
        (
            {"x": tensor(), "y": tensor(begin=20, end=44)},
            48,
            "overlap, or leave a gap, at byte 24",
        ),
        ({"x": tensor(shape=(-2, -3))}, 24, "no whole numbers"),
        ({"x": tensor(shape=(-1, -6))}, 24, "no whole numbers"),
        ({"x": tensor(shape=(True, 6))}, 24, "no whole numbers"),
        ({"x": tensor(shape=(2.0, 3))}, 24, "no whole numbers"),
        ({"x": {"dtype": "F32", "shape": [1]}}, 4, "'x' has no dtype, shape and two"),
        ({"__metadata__": {"a": 1}}, 0, "no table of texts"),
        ({"__metadata__": ["a"]}, 0, "no table of texts"),
    ],
)
def test_what_does_not_agree_is_said(entries, n_bytes, words):
    with pytest.raises(ValueError, match=words):
        parsed(n_bytes, **entries)


def test_a_header_is_a_table():
    assert LONGEST_HEADER == 32 * 2**20
    with pytest.raises(ValueError, match="its header is no table"):
        parse_tensor_header(b"[]", 0)
    long = "n" * 70
    with pytest.raises(ValueError, match=f"its tensor '{'n' * 60}' has no dtype"):
        parsed(0, **{long: 3})
