"""``dualclust cluster``: k-means with bounded sizes on a file of embeddings, on one rank or many.

`command` runs it; `assign` and `choice` run ``dualclust assign`` and ``--k-range``. `options`
checks the flags, `sizes` reads bounds, `pairs` known rows and forbidden pairs, and `embeddings` the
rows, by the readers of `formats`. `launch` joins ranks (`exchange`) and starts `threads`. Results
go to `output_folder`, `table` and `report`; `checkpoint` and `resume` keep what updates have found.
"""
