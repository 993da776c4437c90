"""The schema registry, for values in Confluent's wire format, through confluent-kafka's own client.

Its packages are the extra `registry`. Public: `client.SchemaRegistry`, `client.open_registry`.
"""
