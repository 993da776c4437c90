"""`areba dlq`: inspect the records that could not be processed, and send them back to their inputs.

record      a dead letter at its offset, decoded
selection   the dead letters that a command selects, and how users write partitions, offsets and times
topic       access to the dead-letters topic, and the set of selected letters that were not sent back yet
origins     the input records that became dead letters
listing     `areba dlq show`
show        `areba dlq show PARTITION:OFFSET`
resend      `areba dlq resend`
"""
