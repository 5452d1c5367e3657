import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words with the streams group protocol: BOOTSTRAP APPLICATION STATE_DIRECTORY.
 *
 * Every record of the topic "lines" has a number as its key. The store has the numbers of the lines with a word, so that a line that is
 * processed twice, as at-least-once allows, counts once.
 */
public class WordCount {
    private static final Duration CLOSE = Duration.ofSeconds(20);

    public static void main(String[] arguments) {
        var strings = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(strings, strings))
            .flatMap((number, line) -> Arrays.stream(line.split(" ")).map(word -> KeyValue.pair(word, number)).toList())
            .groupByKey(Grouped.with("words", strings, strings))
            .aggregate(
                () -> "",
                WordCount::add,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("counts")
                    .withKeySerde(strings).withValueSerde(strings).withCachingDisabled())
            .toStream()
            .mapValues(numbers -> String.valueOf(numbers.split(" ").length))
            .to("counts", Produced.with(strings, strings));
        var streams = new KafkaStreams(builder.build(), settings(arguments));
        streams.setStateListener((state, last) -> System.out.println("state " + state));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSE)));
        streams.start();
    }

    private static String add(String word, String number, String numbers) {
        var all = new TreeSet<>(Arrays.asList(numbers.split(" ")));
        all.remove("");
        all.add(number);
        return String.join(" ", all);
    }

    private static Properties settings(String[] arguments) {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("group.protocol", "streams");
        settings.put("commit.interval.ms", "200");
        settings.put("num.stream.threads", "2");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("main.consumer.auto.offset.reset", "earliest");
        return settings;
    }
}
