import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, topic, seconds of warm-up, seconds. Commits one record of 100 bytes after another; prints transactions per second, and
 * how many milliseconds one took: the median, and the 99th percentile.
 */
public class SingleRecordTransactions {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "transactional.id", arguments[1], "acks", "all", "linger.ms", "0");
        var record = new ProducerRecord<byte[], byte[]>(arguments[1], 0, null, new byte[100]);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            commit(producer, record, Integer.parseInt(arguments[2]));
            long started = System.nanoTime();
            long[] took = commit(producer, record, Integer.parseInt(arguments[3]));
            double seconds = (System.nanoTime() - started) / 1e9;
            double median = took[took.length / 2] / 1e6;
            double worst = took[took.length * 99 / 100] / 1e6;
            System.out.println(took.length / seconds + " " + median + " " + worst);
        }
    }

    /** For so many seconds; returns how many nanoseconds each transaction took, in order of size. */
    private static long[] commit(
            KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int seconds) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        var took = LongStream.builder();
        long before = System.nanoTime();
        do {
            producer.beginTransaction();
            producer.send(record);
            producer.commitTransaction();
            long after = System.nanoTime();
            took.add(after - before);
            before = after;
        } while (before < end);
        return took.build().sorted().toArray();
    }
}
