"""The commands of `areba`, in one file for each group. Slow imports stand inside the functions that need them."""
