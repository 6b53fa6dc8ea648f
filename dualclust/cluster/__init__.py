"""``dualclust cluster``: k-means with bounded sizes on a file of embeddings, on one rank or many.

`command` runs it. `embeddings` reads rows, `products` multiplies on several threads with the bits
of one, and `ranks` joins processes. `checkpoint`, `output` and `report` write files.
"""
