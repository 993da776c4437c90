"""The learners: each method by hand, the network, and what every learner must do."""
