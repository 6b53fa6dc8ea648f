"""Deep clustering in PyTorch: `loop.train` runs a method by its settings and writes a run folder.

Everything mathematical is a call into `dualclust.algos`. Each group imports those above it alone.

============  ======================================================================================
group         what it solves
============  ======================================================================================
`config`      the settings of a run (`RunConfig`), TOML in and out; loads no torch
`state`       checkpoints that are exact and complete; named streams of random numbers
`augment`     views of a batch: crops, affine maps, colors
`data`        samples out of files, archives and folders, normalized, on their device
`networks`    encoders with a projector and a predictor; batch normalization over views and ranks
`report`      pictures of a clustering
`models`      a trained network as one object and one file; exports to other runtimes
`methods`     SeCu, CoKe, ProPos, GATCluster, MI + margin, self-labeling: a state and its losses
`loop`        epochs, evaluation, exact resume, the run folder
`recipes`     TOML files: the papers' settings by data set
============  ======================================================================================
"""
