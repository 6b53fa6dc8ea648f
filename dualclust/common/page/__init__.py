"""What the pages of results and of runs are made of: one file each, which loads nothing else.

`document` puts a template, styles, scripts and data into one page under a policy that allows these
alone; `numbers` prepares what charts and maps show; `layout` places centers. The scripts and the
style beside them are shared: elements and search (`base.js`), bars (`charts.js`), the map, rows,
the table of clusters. Text of the user reaches a page as data, or escaped.
"""

from .document import json_text, page_text, read_part, script_of
from .layout import main_plane, neighbor_map, rows_around
from .numbers import held, histogram, maps_of, packed, rounded

__all__ = [
    "held",
    "histogram",
    "json_text",
    "main_plane",
    "maps_of",
    "neighbor_map",
    "packed",
    "page_text",
    "read_part",
    "rounded",
    "rows_around",
    "script_of",
]
