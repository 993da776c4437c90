"""Generated inputs against models and laws."""
