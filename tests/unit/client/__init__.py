"""Tests of the client for subscribers."""
