"""`study run`: experiments, their streams and variants, and the store of finished repetitions."""
