"""`study report`: scores, tables, figures and claims of stored repetitions, compared with the paper."""
