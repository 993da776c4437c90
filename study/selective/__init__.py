"""A benchmark of labels that come late, or that depend on what a learner predicted: `python -m study.selective`.

A *policy* (`policies`) says when the label of an example is shown, and which one; a *method* (`methods`) predicts and
learns; `world` lets a method meet a stream (`streams`) under a policy; `scoring` rates its predictions by the true
labels, whatever the method was shown. Nothing here needs the worker, or Kafka. `selective.md` beside this folder says
how to run a method of your own, and has the tables.
"""
