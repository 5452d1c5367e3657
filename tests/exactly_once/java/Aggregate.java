import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams with exactly_once_v2: counts the records of each group of numbers, and writes each count with the record that made it.
 * Every input partition has records of every group, so they go through a repartition topic; the counts are a store with a changelog.
 */
public class Aggregate {
    private static final int GROUPS = 8;
    private static final Duration CLOSE = Duration.ofSeconds(20);

    public static void main(String[] arguments) {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            given.put(parts[0], parts[1]);
        }
        int partitions = Integer.parseInt(given.get("partitions"));
        var strings = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream(given.get("name") + "-input", Consumed.with(strings, strings))
            .process(ByGroup::new)
            .repartition(Repartitioned.with(strings, strings).withName("groups").withNumberOfPartitions(partitions))
            .groupByKey(Grouped.with(strings, strings))
            .aggregate(
                () -> "0",
                (group, source, last) -> (Long.parseLong(last.split(" ")[0]) + 1) + " " + source,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("counts")
                    .withKeySerde(strings).withValueSerde(strings).withCachingDisabled())
            .toStream()
            .to(given.get("name") + "-output", Produced.with(strings, strings, (topic, group, value, count) ->
                Optional.of(Set.of(Integer.parseInt(group) / count % count))));
        var streams = new KafkaStreams(builder.build(), settings(given));
        streams.setUncaughtExceptionHandler(failure -> {
            System.out.println("the thread is replaced: " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSE)));
        streams.start();
    }

    private static Properties settings(Map<String, String> given) {
        var settings = new Properties();
        settings.put("application.id", given.get("name"));
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("client.id", given.get("name") + "-" + given.get("instance"));
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("group.protocol", "classic");
        settings.put("replication.factor", given.get("replicas"));
        settings.put("num.standby.replicas", "1");
        settings.put("state.dir", given.get("directory"));
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("request.timeout.ms", "5000"); // how long each client waits for a broker that is paused
        settings.put("default.api.timeout.ms", "20000");
        settings.put("main.consumer.session.timeout.ms", given.get("session_timeout_ms"));
        settings.put("main.consumer.heartbeat.interval.ms", "500");
        settings.put("main.consumer.auto.offset.reset", "earliest");
        settings.put("producer.transaction.timeout.ms", given.get("transaction_timeout_ms"));
        settings.put("probing.rebalance.interval.ms", "60000");
        return settings;
    }

    /** The record's group, and where the record is. */
    private static class ByGroup extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            var from = context().recordMetadata().orElseThrow();
            String group = String.valueOf(Long.parseLong(record.value()) % GROUPS);
            context().forward(record.withKey(group).withValue(from.partition() + ":" + from.offset()));
        }
    }
}
