"""The methods, one file each; RELAY has a folder."""
