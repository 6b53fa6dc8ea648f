"""What ranks send each other before the first step, and how many differences a message names."""

import json

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.common.handshake import check_same


def test_facts_are_sent_in_the_order_of_their_names():
    sent = []

    def exchange(content):
        sent.append(content)
        return [content, content]

    check_same({"k": "3", "a": "1"}, exchange)
    assert sent == [b'{"a": "1", "k": "3"}']


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (2, ""), (3, ""), (4, " and 1 more"), (5, " and 2 more")]
)
def test_three_differences_are_named_and_the_others_counted(count, more):
    names = "abcde"[:count]
    other = json.dumps(dict.fromkeys(names, "1")).encode()
    with pytest.raises(UsageError) as caught:
        check_same(dict.fromkeys(names, "0"), lambda content: [content, content, other])
    shown = "; ".join(f"{name} = 0 on rank 0 and 1 on rank 2" for name in names[:3])
    assert str(caught.value) == (
        f"the ranks must do the same, got {shown}{more}. To fix this, start all ranks with the "
        f"same options, inputs and versions"
    )
