"""What is deleted: records that the broker will delete and a restore needs, and progress that no restore needs."""
