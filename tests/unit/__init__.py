"""Tests of one module at a time, without IO."""
