"""The page of a result: its numbers in words, charts, a map of the clusters, rows worth a look.

`draw` collects the numbers, `layout` places the centers, `row_entries` prepares what is shown of
rows, and `page` puts everything into one file that loads nothing: `page.css`, and the scripts
beside it, which run in the reader's browser. Text of the user reaches the page as data alone.
`files` is what the command calls. `cluster.notable` chooses the rows worth a look: typical ones,
doubtful ones, and those that only the bounds moved.
"""

from .draw import draw_report
from .files import report_files
from .row_entries import Shown

__all__ = ["Shown", "draw_report", "report_files"]
