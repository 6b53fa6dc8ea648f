"""The mathematics of size-constrained clustering, written once on the array API standard.

Every function takes the arrays of one library (NumPy, PyTorch, array_api_strict, ...) and returns
arrays of the same library, dtype and device. State is passed in and returned, never kept.

====================  =====================================================================
module                what it solves
====================  =====================================================================
`bounds`              bounds on cluster sizes, and whether any assignment satisfies them
`steps`               how fast prices move: measured rules, published settings
`duals`               the primal-dual step: labels by priced scores, prices by counts
`assignment`          online assignment whose counts end inside the bounds, always
`certificates`        what duals prove: sizes, and a bound on the best objective
`offline`             the same with all samples at hand, near-optimal
`transport`           the same, solved exactly
`centers`             centers as running means, exact for any batch split
`hardness_centers`    SeCu's weighted centers, with a proof of optimality
`kmeans`              spherical k-means with sizes between bounds
`projections`         sphere, simplex, l1 ball, capped simplex
`losses`              SeCu's losses
`metrics`             agreement with classes, effective number of clusters
`segments`            integer sums by segment, a kernel
`checks`, `errors`    what is refused, and how it says so
====================  =====================================================================
"""
