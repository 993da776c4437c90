"""The learners: each method computed by hand, the network, and what every learner must do."""
