"""Frequent words of clusters are those that tell them from the others."""

from __future__ import annotations

import numpy as np

from dualclust.cluster.report.frequent_words import frequent_words

TOPICS = ("wine grape cellar", "river boat water", "engine wheel road")


def texts_of(n: int, seed: int = 0) -> tuple[list[str], list[int]]:
    """Texts of three topics, each with two words of its topic and four that all have."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n).tolist()
    common = "alpha beta gamma delta epsilon zeta eta theta".split()
    texts = []
    for label in labels:
        words = [*rng.choice(TOPICS[label].split(), 2), *rng.choice(common, 4)]
        texts.append(" ".join(rng.permutation(words)).title())
    return texts, labels


def test_words_of_the_topic_are_found_and_common_ones_are_not() -> None:
    found = frequent_words(*texts_of(300))
    assert {label: set(words) for label, words in found.items()} == {
        label: set(topic.split()) for label, topic in enumerate(TOPICS)
    }


def test_the_most_telling_word_comes_first() -> None:
    texts = ["red one"] * 8 + ["red two"] * 8 + ["two"] * 30
    assert frequent_words(texts, [0] * 16 + [1] * 30)[0] == ["red", "one"]


def test_a_word_counts_once_a_row_and_needs_two_rows() -> None:
    labels = [0] * 3 + [1] * 60
    texts = ["rare rare rare rare", "other", "third", *["plain"] * 60]
    assert frequent_words(texts, labels) == {1: ["plain"]}


def test_chance_tells_nothing() -> None:
    rng = np.random.default_rng(1)
    texts, _ = texts_of(400)
    assert sum(map(len, frequent_words(texts, rng.integers(0, 20, 400).tolist()).values())) <= 4


def test_addresses_paths_and_numbers_hold_no_words() -> None:
    texts = ["https://example.org/red"] * 9 + ["img/red.png"] * 9 + ["12 34 a_b ab"] * 9
    assert frequent_words(texts + ["blue"] * 40, [0] * 27 + [1] * 40) == {1: ["blue"]}


def test_one_cluster_and_none() -> None:
    assert frequent_words(["red"] * 5, [0] * 5) == {}
    assert frequent_words([], []) == {}
