import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: bootstrap, source topic, destination topic, records per second, seconds of warm-up, seconds. One thread writes records that say
 * when they were written, one copies them in transactions, with its offsets, and one reads what is committed of the copies. Prints how many
 * milliseconds lie between the first write and the last read, median and 99th percentile, and the transactions per second.
 */
public class TransformLatency {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long WAIT_SECONDS = 120;

    private final String bootstrap;
    private final TopicPartition source;
    private final TopicPartition destination;
    private final CountDownLatch flowing = new CountDownLatch(1);
    private final AtomicInteger transactions = new AtomicInteger();
    private final Queue<Long> unread = new ArrayDeque<>(); // of records polled, how long they were under way
    private volatile boolean stopping;

    TransformLatency(String bootstrap, String source, String destination) {
        this.bootstrap = bootstrap;
        this.source = new TopicPartition(source, 0);
        this.destination = new TopicPartition(destination, 0);
    }

    public static void main(String[] arguments) throws InterruptedException {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        int rate = Integer.parseInt(arguments[3]);
        int warmUp = rate * Integer.parseInt(arguments[4]);
        int count = rate * Integer.parseInt(arguments[5]);
        new TransformLatency(arguments[0], arguments[1], arguments[2]).run(rate, warmUp, count);
    }

    private void run(int rate, int warmUp, int count) throws InterruptedException {
        var transformer = new Thread(this::transform);
        var feeder = new Thread(() -> feed(rate, warmUp + count));
        transformer.start();
        feeder.start();
        try (var reader = consumer(Map.of())) {
            reader.assign(List.of(destination));
            reader.seek(destination, 0);
            read(reader, 1);
            flowing.countDown();
            read(reader, warmUp);
            int before = transactions.get();
            long started = System.nanoTime();
            long[] latencies = read(reader, count);
            double seconds = (System.nanoTime() - started) / 1e9;
            double committed = (transactions.get() - before) / seconds;
            System.out.println(
                    latencies[count / 2] / 1e6 + " " + latencies[count * 99 / 100] / 1e6 + " " + committed);
        }
        stopping = true;
        feeder.join();
        transformer.join();
    }

    /** The first record shows that everything is connected; the others follow at the rate. */
    private void feed(int rate, int count) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", "0");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(stamped());
            flowing.await();
            long started = System.nanoTime();
            for (int sent = 0; sent < count; sent++) {
                long due = started + TimeUnit.SECONDS.toNanos(sent) / rate;
                while (System.nanoTime() < due) {
                    LockSupport.parkNanos(due - System.nanoTime());
                }
                producer.send(stamped());
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private ProducerRecord<byte[], byte[]> stamped() {
        return new ProducerRecord<>(
                source.topic(), 0, null, ByteBuffer.allocate(100).putLong(System.nanoTime()).array());
    }

    private void transform() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", source.topic());
        Map<String, Object> ofGroup = Map.of(
                "group.id", source.topic(), "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                var consumer = consumer(ofGroup)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source.topic()));
            while (!stopping) {
                var records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(destination.topic(), 0, null, record.value()));
                }
                var next = new OffsetAndMetadata(consumer.position(source));
                producer.sendOffsetsToTransaction(Map.of(source, next), consumer.groupMetadata());
                producer.commitTransaction();
                transactions.incrementAndGet();
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The next records; returns how many nanoseconds each was under way, in order of size. */
    private long[] read(KafkaConsumer<byte[], byte[]> reader, int count) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        var latencies = LongStream.builder();
        for (int taken = 0; taken < count; taken++) {
            while (unread.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + taken + " of " + count + " records came through");
                }
                var records = reader.poll(POLL);
                long now = System.nanoTime();
                records.forEach(record -> unread.add(now - ByteBuffer.wrap(record.value()).getLong()));
            }
            latencies.add(unread.remove());
        }
        return latencies.build().sorted().toArray();
    }
}
