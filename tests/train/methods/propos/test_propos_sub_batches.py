"""Which batches can be cut into sub-batches: evenly, and two images in each."""

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.methods.propos._passes import SubBatches


@pytest.mark.parametrize(("count", "batch_size"), [(1, 2), (4, 8), (3, 12)])
def test_two_images_in_each_are_enough(count, batch_size):
    passes = SubBatches(ALONE, [], count=count, batch_size=batch_size, key=0)
    assert (passes.count, passes.key) == (count, 0)


@pytest.mark.parametrize(("count", "batch_size"), [(1, 1), (4, 4), (4, 10), (5, 12)])
def test_one_image_or_a_rest_is_refused(count, batch_size):
    with pytest.raises(UsageError, match=rf"propos\.sub_batches={count}, .* got {batch_size}\."):
        SubBatches(ALONE, [], count=count, batch_size=batch_size, key=0)
