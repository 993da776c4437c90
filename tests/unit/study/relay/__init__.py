"""Tests of RELAY in the study."""
