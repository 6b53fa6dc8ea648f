"""MI + margin: entropy self-labeling of a softmax classifier, and the baselines of its paper.

`method` is the method, with the step; `_baselines` holds the losses of other papers, `_seeds` the
weak supervision by a few labels, and `_restarts` the second start of a lost cluster.
"""

from .method import MiMargin

__all__ = ["MiMargin"]
