"""The binary formats, written a second time from their specification, to compare the codec with."""
