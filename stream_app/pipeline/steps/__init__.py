"""The steps of a task between merge and encode, as compiled calls over all of its streams.

`routed` finds the stream of each record, `join_and_learn` joins and learns, `evaluate` scores, `output_rows` puts
predictions and outcomes into merge order. `task.Task.run` calls them in this order.
"""
