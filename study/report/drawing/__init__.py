"""The panels of the study's figures, their colours, and the labels at the ends of their lines."""
