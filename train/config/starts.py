"""How often a run begins before one beginning is continued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...algos.core.errors import UsageError
from .constraints import Count, Positive, one_of
from .schema import Checked, Rule

__all__ = ["StartsConfig"]


@dataclass(frozen=True, slots=True)
class StartsConfig(Checked):
    """Several beginnings of a run, of which the best one by a figure without labels is continued.

    A method that gets stuck in its first epochs, at a loss that shows it, is worth beginning more
    than once. So is one whose views may be too strong for the data: then beginnings differ in
    their views as well, and the silhouette of the clusters tells which suit.

    Attributes
    ----------
    count : int, 1 or more. Beginnings, each a run with random numbers of its own; 1: none but the
        run itself, and the table is left out.
    epochs : int, 1 or more. Epochs of each; they belong to the epochs of the whole run.
    by : ``"loss"`` or ``"silhouette"``. What is compared: the mean loss of the last epoch, the
        least of which goes on, or the silhouette of the labels inside the bounds among the
        features, by cosine distances, the largest of which does.
    views : list of floats above 0, 1 at most. How strong the views of a beginning are, in turn:
        1 as the tables of views say, 0.5 half as far from what they show; no more of them than
        beginnings. Losses of different views cannot be compared, so that `by` has to be
        ``"silhouette"``, which is that of the plain samples.

    Raises
    ------
    UsageError
        If a value breaks its rule, there are more strengths than beginnings, or beginnings of
        different views are compared by their losses.
    """

    count: Count = 4
    epochs: Count = 8
    by: Annotated[str, one_of("loss", "silhouette")] = "loss"
    views: Annotated[
        tuple[Positive, ...],
        Rule("a list of numbers above 0, 1 at most", lambda views: views and max(views) <= 1),
    ] = (1.0,)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.count == 1:
            return
        if len(self.views) > self.count:
            msg = (
                f"views must be no more than count={self.count} strengths, one for each beginning, "
                f"got {list(self.views)}. To fix this, raise starts.count"
            )
            raise UsageError(msg)
        if self.by == "loss" and len(set(self.views)) > 1:
            msg = (
                f"by must be 'silhouette' where views differ, got {self.by!r} and views="
                f"{list(self.views)}: losses of different views cannot be compared. To fix this, "
                f"set starts.by=silhouette, or one strength for all"
            )
            raise UsageError(msg)

    def strength_of(self, number: int) -> float:
        """Return how strong the views of a beginning are; `views` are taken in turn.

        Examples
        --------
        >>> starts = StartsConfig(count=3, by="silhouette", views=(1.0, 0.5))
        >>> [starts.strength_of(number) for number in range(3)]
        [1.0, 0.5, 1.0]
        """
        return self.views[number % len(self.views)]
