"""The GPU day: one program that checks, times and trains on a card, stage by stage.

    python -m benchmarks.gpu                          # from the root of a checkout, on a card
    python -m benchmarks.gpu --stages conformance,speed --budget 9
    python -m benchmarks.gpu --rehearse               # every stage at toy size, without a card

========================  ==================================================================
module                    holds
========================  ==================================================================
`program`                 the command: which stages, for how long, where to
`needs`                   which versions are supported, and where packages are found
`machine`                 what the stages ask of a device; which tree, card and versions it is
`card`, `rehearsal`       the two machines: a CUDA card, and the second device of the tests
`timing`                  budgets, repeated measurements, their spread
`stages`                  a stage as a list of parts, of which finished ones are not repeated
`conformance`             stage 1: the rows of the table, and training steps, against references
`triton_kernels`          optional kernels: right, and how long they take
`speed`                   stage 2: times as shares of what the card can do
`paper`                   stage 3: a run of a paper, from its recipe to its table
`records`, `page`         results as JSON, and as one page
`detached`                a day that goes on after the call that started it
========================  ==================================================================

docs/gpu.md says how a day is run and what each stage measures.
"""
