"""Files of one's own: CSV, JSON lines or Parquet, as streams of a replay, and the description of a file.

    reader (rows of cells) -> layout (what each column is) -> rows on disk, in the order of time -> DataSet

Everything is read in constant memory. Cells that are wrong are reported by line and column; what is guessed is said.
"""
