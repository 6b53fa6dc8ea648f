"""The mathematics of size-constrained clustering, written once on the array API standard.

Every function takes the arrays of one library (NumPy, PyTorch, array_api_strict, ...) and returns
arrays of the same library, dtype and device. State is passed in and returned, never kept. A group
imports only groups above it in this table, and exports its public names, such as
``dualclust.algos.offline.assign_exact``.

===============  =================================================================================
group            what it solves
===============  =================================================================================
`core`           projections, exact sums, random numbers from a counter, checks, errors
`bounds`         which cluster sizes are allowed, and whether any labels satisfy them, with proof
`scores`         sources of scores: a matrix, or features and centers, in blocks, over ranks
`online`         labels for samples that arrive one by one; dual prices, steps, certificates
`offline`        labels for all samples at once: to a proven gap, or optimal
`baselines`      Sinkhorn, SeCu's entropy variant, the sign rule; all methods side by side
`clustering`     centers, k-means with and without bounds, SeCu's weighted centers, metrics
`losses`         losses that train a network: SeCu, CoKe, ProPos, GATCluster, MI + margin
`pseudo_labels`  the convex update of soft pseudo-labels, to a certified gap
`theory`         the Label Feature Theorem as a check; relations; the von Mises-Fisher density
===============  =================================================================================
"""
