"""The operator's tools: inspect an application, change what its tasks do, and examine models and dead letters.

Each tool reads the topics and the group, and none needs a running worker. `import`, `skip` and `reset` write an act to
progress, `promote` and `resume` write a mark to the examples, and `dlq resend` sends dead letters back. `import`,
`skip` and `reset` refuse to run while workers run, since these would not notice the change.

May import `worker` and everything below it. Public: `compare_configuration`, `dead_letters.listing`,
`dead_letters.resend`, `dead_letters.selection`, `dead_letters.show`, `explain`, `inspect_tasks`, `learner_list`,
`marks`, `models`, `repartition`, `reset`, `saved_models.backup`, `saved_models.export_models`,
`saved_models.import_backup`, `saved_models.import_model`, `skip`.
"""
