"""The GPU day: one program that checks, times and trains on a card, stage by stage.

    python -m benchmarks.gpu                          # from the root of a checkout, on a card
    python -m benchmarks.gpu --stages secu --data cifar10_jpeg.npz --detach
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
`constants`               stage 1: what the card can do, and what the host takes to ask for it
`conformance`             stage 2: the rows of the table, and training steps, against references
`speed`                   stages 3 and 4: times of functions and steps, as shares of that
`triton_kernels`          stage 5: optional kernels: right, and how long they take
`paper`                   the other stages: runs of papers, from their recipes to their tables
`portable`                the state of such a run in a few small files
`records`, `page`         results as JSON, and as one page
`detached`                a day that goes on after the call that started it
========================  ==================================================================

docs/gpu.md says how a day is run and what each stage measures.
"""
