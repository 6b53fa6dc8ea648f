"""The papers' claims as programs that can fail, and errors planted to see whether they notice.

=============  ===================================================================================
group          what it holds
=============  ===================================================================================
`registry`     how a claim is registered, run, ordered and cited
`references`   what claims compare with: independent texts, instances, exact arithmetic
`planted`      errors planted in the library, by paper, and the program that plants them
`theorem_r`    the theorem that replaces CoKe's Theorem 1
`constraints`  bounds on groups, and pairs of rows
`secu`, `coke`, `propos`, `gatcluster`, `mi_margin`  the claims of each paper
=============  ===================================================================================

`page` writes ``docs/claims.md``, `regret_plot` the figures of ``docs/regret.md``.
"""
