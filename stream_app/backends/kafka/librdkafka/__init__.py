"""Consumer and producer on the C interface of librdkafka, which hand over whole columns of records.

confluent-kafka makes several Python objects for each record; that took more time than all work on the record. Its
package contains librdkafka, which is used here directly. A batch is read from librdkafka's messages, and written to
them, by compiled code.
"""
