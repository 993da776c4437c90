package areba.peers;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Joins two topics by key with Kafka's plain clients: two sets, and a transaction for each batch.
 *
 * <p>Arguments: the brokers, both input topics, the output topic.
 */
public final class PlainLoop {
    private static final byte[] OUTPUT = new byte[75];

    private final String examples;
    private final String output;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Set<ByteBuffer> waitingExamples = new HashSet<>();
    private final Set<ByteBuffer> waitingLabels = new HashSet<>();

    private PlainLoop(String servers, String examples, String labels, String output) {
        this.examples = examples;
        this.output = output;
        Properties reading = new Properties();
        reading.put("bootstrap.servers", servers);
        reading.put("group.id", output);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "10000");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Properties writing = new Properties();
        writing.put("bootstrap.servers", servers);
        writing.put("transactional.id", output);
        writing.put("batch.size", "262144");
        writing.put("linger.ms", "5");
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(examples, labels));
    }

    private void run() {
        while (true) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                join(record);
            }
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : records.partitions()) {
                offsets.put(partition, new OffsetAndMetadata(consumer.position(partition)));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    /** Writes a prediction for each example, and an outcome for each example with its label. */
    private void join(ConsumerRecord<byte[], byte[]> record) {
        boolean isExample = record.topic().equals(examples);
        ByteBuffer key = ByteBuffer.wrap(record.key());
        if (isExample) {
            producer.send(new ProducerRecord<>(output, record.key(), OUTPUT));
        }
        if ((isExample ? waitingLabels : waitingExamples).remove(key)) {
            producer.send(new ProducerRecord<>(output, record.key(), OUTPUT));
        } else {
            (isExample ? waitingExamples : waitingLabels).add(key);
        }
    }

    public static void main(String[] arguments) {
        new PlainLoop(arguments[0], arguments[1], arguments[2], arguments[3]).run();
    }
}
