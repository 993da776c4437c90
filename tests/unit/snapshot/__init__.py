"""The formats of snapshots, and of acts that are written in parts."""
