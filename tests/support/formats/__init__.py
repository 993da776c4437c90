"""The binary formats, implemented a second time from their specification, to compare the codec with."""
