"""Tests of `stream_app.config`."""
