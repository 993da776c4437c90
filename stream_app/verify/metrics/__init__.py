"""The check of the topic `metrics`: against predictions and outcomes, and against the records before."""
