"""RELAY, a method of this project, against others: on the study's runs, unseen kinds, and concepts that turn."""
