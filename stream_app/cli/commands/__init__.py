"""The commands of `areba`: a file for each group. They import what takes long inside their functions."""
