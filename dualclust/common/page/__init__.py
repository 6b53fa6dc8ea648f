"""What the pages of results and of runs are made of: one file each, which loads nothing else.

`document` puts a template, styles, scripts and data into one page under a policy that allows these
alone; templates share the HTML in `parts`, whose words are filled in by `sections`; `numbers`
prepares what charts and maps show; `layout` places centers. Shared as well are the style and the
scripts: elements and search (`base.js`), bars (`charts.js`), the map, rows, the table of clusters.
Text of the user reaches a page as data, or escaped.
"""

from .document import json_text, page_text, read_part, script_of, template_of
from .layout import main_plane, neighbor_map, rows_around
from .numbers import held, histogram, maps_of, packed, rounded
from .sections import allowed_sizes, shared_fields, tiles_html

__all__ = [
    "allowed_sizes",
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
    "shared_fields",
    "template_of",
    "tiles_html",
]
