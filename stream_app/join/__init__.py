"""The join of examples and labels of one stream, by id, in the order of the task's merged input.

An example waits for its label and a label for its example, each for a bounded time and in bounded number; what was
closed is remembered for a while, so that duplicates and late labels are recognised.

May import `jit` and `config`. Public: `stream_join.StreamJoin` and the arrays that it works on.
"""
