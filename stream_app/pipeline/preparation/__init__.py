"""The step prepare: the values of an example by column become the features that its stream learns from.

`tables` has the columns of a stream and what is learned of them, as compiled code sees it; `categories` the frequent
categories of a column; `kernel` turns values into features; `preparation` owns the tables of one stream, for the task
and for snapshots; `growth` takes over what fewer columns have learned; `faults` says what is wrong with a value.
"""
