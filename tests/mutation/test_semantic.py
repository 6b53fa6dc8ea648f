"""Errors that people made, or that were planted by hand, are among those that are made."""

from __future__ import annotations

import pytest

from tests.mutation.operators import SEMANTIC, is_python, mutants

# Kind, a function of the shape of the place, the line as it was, the line with the error.
PLANTED = [
    (
        "sibling variable",
        "def f(xp, score, price, regret, truncation, first):\n"
        "    label = score - first + price\n"
        "    beyond = truncation - first\n"
        "    return xp.maximum(regret, beyond - label)\n",
        "return xp.maximum(regret, beyond - xp.maximum(label, price))",
    ),
    (
        "term added",
        "def f(lost, size, priced_size):\n"
        "    rounding = rounding_of(size + priced_size)\n"
        "    return relative_gap(lost, size), rounding\n",
        "return relative_gap(lost, (size + priced_size)), rounding",
    ),
    (
        "factor dropped",
        "def f(bound, objective):\n    return 2.0 * max(0.0, bound - objective)\n",
        "return max(0.0, bound - objective)",
    ),
    (
        "term added",
        "def f(block, prices):\n"
        "    own, _ = best_clusters(block, prices)\n"
        "    return sum(take_along_axis(block, own[:, None], axis=1))\n",
        "return sum(take_along_axis((block + prices), own[:, None], axis=1))",
    ),
    (
        "branch dropped",
        "def f(options, problem):\n"
        "    return options.init if problem.start is None else digest_of(*problem.start)\n",
        "return options.init",
    ),
    (
        "offset",
        "def f(path, name, empty, batches):\n"
        "    done = 0\n"
        "    for batch in batches:\n"
        "        refuse_null(path, name, done + int(flatnonzero(empty)[0]))\n"
        "        done += batch.num_rows\n",
        "refuse_null(path, name, int(flatnonzero(empty)[0]))",
    ),
    (
        "offset",
        "def f(source, first, group, bad):\n"
        "    return source.block(first - group.first_row + bad, first + 1)\n",
        "return source.block(first + bad, first + 1)",
    ),
    (
        "condition changed",
        "def f(is_plain, changed, tol):\n    return is_plain and changed <= tol\n",
        "return (is_plain and changed <= tol or changed == 0)",
    ),
    (
        "offset",
        "def f(state, n, centers):\n"
        "    k, d = centers.shape\n"
        "    check_labels('state.labels', state.labels, n, k)\n",
        "check_labels('state.labels', state.labels, n, k + 1)",
    ),
    ("call removed", "def f(run):\n    check_same_run(run)\n", "pass"),
    ("call removed", "def f(self):\n    self._pending.zero_()\n", "pass"),
    (
        "constant bound",
        "def f(scores, rows):\n"
        "    n, k = scores.shape\n"
        "    for i in range(0, n, rows):\n"
        "        g(i)\n",
        "for i in range(0, min(n, 2**20), rows):",
    ),
]
# The other shapes of each kind.
MORE = [
    (
        "sibling variable",
        "def f(low: int, high: int):\n    return low\n",
        {"return high"},
    ),
    (
        "stale value",
        "def f(xp, prices, low):\n    inside = xp.clip(prices, low)\n    return xp.sum(inside)\n",
        {"return xp.sum(prices)"},
    ),
    (
        "stale value",
        "def f(n, x):\n    n = n + x\n    g(n)\n    return n\n",
        {"g(n)", "g(x)", "return x"},
    ),
    (
        "condition changed",
        "def f(a, b, rows):\n    return [r for r in rows if a and (b or r)]\n",
        {
            "return [r for r in rows if True]",
            "return [r for r in rows if a]",
            "return [r for r in rows if (b or r)]",
            "return [r for r in rows if a and (b)]",
            "return [r for r in rows if a and (r)]",
        },
    ),
    (
        "line removed",
        "def f(x, y):\n    z = 1\n    x += y\n    x[0] = z\n    x, y = y, x\n    x, new = y, x\n",
        {"pass"},
    ),
    ("if removed", "def f(x):\n    if x < 0:\n        raise ValueError\n", {"pass"}),
    (
        "arguments swapped",
        "def f(a, b):\n    g(a, b)\n    g('word', b)\n    max(a, b)\n    check_real('scores', a)\n",
        {"g(b, a)"},
    ),
    (
        "offset",
        "def f(xs, first: int, n: int):\n    return xs[first : first + n]\n",
        {
            "return xs[first + 1 : first + n]",
            "return xs[first - 1 : first + n]",
            "return xs[first : (first + n) + 1]",
            "return xs[first : (first + n) - 1]",
            "return xs[first : first]",
            "return xs[first : n]",
        },
    ),
    (
        "one iteration",
        "def f(xs, n, rows):\n    for x in xs:\n        g(x)\n    return range(0, n, rows)\n",
        {"for x in dict(zip(range(1), xs)).values():", "return range(0, min(n, 0 + rows), rows)"},
    ),
    ("term dropped", "def f(a, b):\n    g(a - b)\n", {"g(a)"}),
    ("term dropped", "def f(a):\n    return f'{a}' + 'b' + 2.5 * a\n", set()),
    ("factor dropped", "def f(a, b):\n    g(a / (b * 3.0))\n", {"g(a)", "g(a / (b))"}),
    (
        "keyword removed",
        "def f(x):\n    g(x, keepdims=True, device=x)\n    assign_exact(x, x, tol=3)\n",
        {"g(x, device=x)", "assign_exact(x, x, )"},
    ),
    ("keyword removed", "def f(x):\n    return zip(x, x, strict=True)\n", set()),
    (
        "entry removed",
        'def f(x):\n    return {"a": x, "b": 1}\n',
        {'return {"b": 1}', 'return {"a": x, }'},
    ),
]


@pytest.mark.parametrize(("operator", "source", "line"), PLANTED)
def test_planted_errors_are_made(operator: str, source: str, line: str) -> None:
    found = [m for m in mutants("algos/sample.py", source) if m.operator == operator]
    assert line in {m.new_line for m in found}
    assert all(is_python(m.applied(source)) for m in found)


@pytest.mark.parametrize(("operator", "source", "lines"), MORE)
def test_each_kind_of_error_is_made(operator: str, source: str, lines: set[str]) -> None:
    found = [m for m in mutants("algos/sample.py", source) if m.operator == operator]
    assert {m.new_line for m in found} >= lines
    assert bool(found) == bool(lines)
    assert all(is_python(m.applied(source)) for m in found)


def test_the_shapes_are_of_every_kind() -> None:
    assert {operator for operator, *_ in (*PLANTED, *MORE)} == set(SEMANTIC)


def test_what_has_no_default_and_another_type_is_left_alone() -> None:
    # `OfflineAssignment` has no defaults; the arguments of `relative_gap` are all floats, those of
    # `rounding_of` a single one, those of `check_labels` of four types.
    source = (
        "def f(x, y):\n"
        "    OfflineAssignment(labels=x, counts=y)\n"
        "    check_labels(x, y, 1, 2)\n"
        "    relative_gap(x, y, 1.0)\n"
    )
    found = mutants("algos/sample.py", source)
    assert not [m for m in found if m.operator == "keyword removed"]
    swapped = {m.new_line for m in found if m.operator == "arguments swapped"}
    assert swapped == {
        "relative_gap(y, x, 1.0)",
        "relative_gap(x, 1.0, y)",
        "check_labels(x, y, 2, 1)",
    }
