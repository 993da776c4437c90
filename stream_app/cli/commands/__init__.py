"""The commands of `areba`, in one file for each group. Slow imports are inside the functions that need them."""
