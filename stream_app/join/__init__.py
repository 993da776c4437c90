"""The join of examples and labels of one stream, by id, in the order of the task's merged input.

An example waits for its label and a label for its example, each for a bounded time and in bounded number; closed ids
are remembered for a while, so that repetitions and late labels are recognised. `rules` has the rules, `layout` the
memory, `segments` the compiled call over many streams.

May import `jit` and `config`. Public: `constants`, `costs`, `delays`, `input`, `layout`, `levelling`, `output`,
`score_bins`, `segments`, `stream_join`.
"""
