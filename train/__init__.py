"""Deep clustering in PyTorch: data, views, networks, methods, a loop with exact resume, reports.

Everything mathematical is a call into `dualclust.algos`. `loop.train` runs a method by its settings
(`config.RunConfig`, or a TOML recipe) and writes a run folder; `loop.resume` continues it.
"""
