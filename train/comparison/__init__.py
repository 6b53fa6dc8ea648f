"""Several runs side by side: what they reached, where they agree, and which one to look at first.

`stored` reads run folders, also those of runs that go on; `baselines` adds k-means to them. `table`
makes rows of figures, `matching` compares the labelings of the same samples, `preference` says
which method is preferred without classes, or why none is, and `document` puts all of it on a page.
"""

from .baselines import run_baseline
from .document import comparison_page
from .matching import Agreements, agreements_of
from .preference import Preference, prefer
from .stored import StoredRun, find_runs, read_run
from .table import COLUMNS, comparison_csv, comparison_markdown, comparison_rows, comparison_text

__all__ = [
    "COLUMNS",
    "Agreements",
    "Preference",
    "StoredRun",
    "agreements_of",
    "comparison_csv",
    "comparison_markdown",
    "comparison_page",
    "comparison_rows",
    "comparison_text",
    "find_runs",
    "prefer",
    "read_run",
    "run_baseline",
]
