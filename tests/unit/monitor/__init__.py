"""Tests of the package `monitor`."""
