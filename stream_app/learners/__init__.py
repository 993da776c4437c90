"""The learners: methods, networks, and the loop that predicts and learns one example after another.

`factory.build` makes the learner of a configuration; `api` says what every learner takes and gives. A method is one
file in `methods`, which `registry` lists, a network one in `networks`; `custom` runs a user's own class.

May import `jit` and `config`. Public: `api`, `factory`, `loop`, `moments`, `online`, `scaler`, `stored_state`,
`wider_state`.
"""
