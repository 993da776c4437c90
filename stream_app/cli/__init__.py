"""The `areba` command.

Each command reads its options, builds clients from the configuration, calls one function of another package and ends
with that function's exit status. Errors become one line each; no command ends in a traceback.

May import everything; nothing imports this package. Public: `main.main`.
"""
