"""One module at a time, without IO."""
