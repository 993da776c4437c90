"""The formats of snapshots and of the records that are written in parts."""
