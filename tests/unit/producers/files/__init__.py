"""Files of one's own as streams of a replay."""
