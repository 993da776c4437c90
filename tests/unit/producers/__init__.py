"""The producers: data sets, synthetic streams, label delays and the replay."""
