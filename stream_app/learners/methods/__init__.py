"""The methods, one file each, as compiled functions over the memory of `learners.queues`."""
