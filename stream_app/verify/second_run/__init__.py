"""Run all stages of a task again, from the first record or from a state, and keep where the run ended.

rerun             run a task along the recorded ranges, and compare every output
checkpoint        the file in which a run keeps where it ended
start             where a run begins: at a checkpoint, or at the oldest snapshot that is left
continued_check   what the check of one task from there on needs besides
"""
