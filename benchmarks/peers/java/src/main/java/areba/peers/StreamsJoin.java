package areba.peers;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * Joins two topics by key with Kafka Streams, exactly once, with its default stores (RocksDB with changelogs).
 *
 * <p>Arguments: the brokers, both input topics, the output topic, a folder for state, and perhaps the commit interval
 * in milliseconds, in place of the default.
 */
public final class StreamsJoin {
    private static final byte[] OUTPUT = new byte[75];

    private StreamsJoin() {}

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        if (arguments.length > 5) {
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[5]);
        }
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        var bytes = Consumed.with(Serdes.ByteArray(), Serdes.ByteArray());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> examples = builder.stream(arguments[1], bytes);
        KStream<byte[], byte[]> labels = builder.stream(arguments[2], bytes);
        examples
            .join(
                labels,
                (example, label) -> OUTPUT,
                JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofHours(1)),
                StreamJoined.with(Serdes.ByteArray(), Serdes.ByteArray(), Serdes.ByteArray()))
            .to(arguments[3], Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));

        CountDownLatch end = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            end.countDown();
        }));
        streams.start();
        end.await();
    }
}
