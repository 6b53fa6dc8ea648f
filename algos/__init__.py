"""The mathematics of size-constrained clustering, written once on the array API standard.

Every function takes the arrays of one library (NumPy, PyTorch, array_api_strict, ...) and returns
arrays of the same library, dtype and device. State is passed in and returned, never kept.

*Bounds and assignment*

=======================  ==================================================================
module                   what it solves
=======================  ==================================================================
`bounds`                 bounds on cluster sizes, and whether any assignment satisfies them
`feasibility`, `farkas`  the same with forbidden pairs; proofs in whole numbers
`steps`                  how fast prices move: measured rules, published settings
`duals`                  the primal-dual step: labels by priced scores, prices by counts
`assignment`             online assignment whose counts end inside the bounds, always
`certificates`           what duals prove: sizes, and a bound on the best objective
`offline`                labels for all samples at once, to a proven gap, or optimal
`scores`                 where scores come from, in blocks of rows, over ranks; their range and unit
`sinkhorn`               entropic transport, as the field's baseline
`entropy_assignment`     SeCu's entropy-constrained assignment
`sign_rule`              biases moved by the sign of the load
`comparison`             all of these on the same scores, with what each proves
=======================  ==================================================================

*Centers and clustering*

=======================  ==================================================================
`centers`                centers as running means, exact for any batch split
`hardness_centers`       SeCu's weighted centers, with a proof of optimality
`kmeans`                 k-means, free or with sizes between bounds
`kmeans_start`           where it starts
`minibatch_kmeans`       the same from batches
`metrics`                agreement with classes, effective number of clusters
=======================  ==================================================================

*Losses and targets*

=======================  ==================================================================
`losses`                 SeCu's losses
`coke_losses`            CoKe's, hard and soft
`sparse_labels`          CoKe's labels averaged over epochs, a few clusters each
`information_losses`     mutual information with a margin
`pseudo_label_losses`    its reverse cross-entropy, divergences, energy
`pseudo_labels`          the convex update of its pseudo-labels, with a duality gap
`joint_information`      IIC
`self_labeling`          SeLa
`prototypes`             ProPos' prototypes of a batch
`prototype_losses`       PSL in three forms, PSA
`memory_queue`           a ring buffer of features
`von_mises_fisher`       log density on the sphere, to 4,096 dimensions
`gatcluster`             GATCluster's targets and losses
`gatcluster_released`    the losses to the digit of the released code
`relations`              its pairwise loss, without an n x n matrix
`attention`              its Gaussian attention map
`label_features`         the Label Feature Theorem, checked
`equivalence`            whether relations are those of classes, and where not
=======================  ==================================================================

*Small parts*

=======================  ==================================================================
`projections`            sphere, simplex, l1 ball, capped simplex
`directions`             unit vectors, and which rows have none
`counter_noise`          normal numbers from a counter, the same on every library
`segments`               integer sums by segment, a kernel
`exact_sums`             sums of real rows in integers, accurate for any spread
`precision`              at least float32
`ratios`                 a caller's numbers as exact fractions
`checks`, `errors`       what is refused, and how it says so
=======================  ==================================================================
"""
