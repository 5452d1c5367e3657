import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What tests/exactly_once/consume_transform_produce.py does, on Apache Kafka's own client; its producer can be replaced. */
public class ConsumeTransformProduce {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long CLOSE_SECONDS = 20;

    private final Map<String, String> given = new HashMap<>();
    private final int partitions;
    private final double abortProbability;
    private final Random random;
    private final String name;
    private final PrintStream events;
    private final KafkaConsumer<String, String> consumer;
    private KafkaProducer<String, String> producer;
    private List<ConsumerRecord<String, String>> batch = List.of();
    private int number;
    private volatile boolean stopping;
    private final CountDownLatch stopped = new CountDownLatch(1);

    ConsumeTransformProduce(String[] arguments) throws IOException {
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            given.put(parts[0], parts[1]);
        }
        partitions = Integer.parseInt(given.get("partitions"));
        abortProbability = Double.parseDouble(given.get("abort_probability"));
        random = new Random(given.get("seed").hashCode());
        events = new PrintStream(new FileOutputStream(given.get("events"), true), true);
        name = given.get("instance") + "-" + UUID.randomUUID().toString().substring(0, 8);
        Properties settings = common();
        settings.put("group.id", given.get("name"));
        settings.put("group.protocol", "classic");
        settings.put("session.timeout.ms", given.get("session_timeout_ms"));
        settings.put("heartbeat.interval.ms", "500");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", given.get("transaction_size"));
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("default.api.timeout.ms", "10000");
        settings.put("request.timeout.ms", "5000"); // how long it waits for a broker that is paused
        return settings;
    }

    private KafkaProducer<String, String> newProducer() {
        Properties settings = common();
        settings.remove("default.api.timeout.ms");
        settings.put("max.block.ms", "10000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("transactional.id", given.get("name") + "-" + given.get("instance"));
        settings.put("transaction.timeout.ms", given.get("transaction_timeout_ms"));
        settings.put("linger.ms", "2");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    void run() {
        consumer.subscribe(List.of(given.get("name") + "-input"));
        while (!stopping) {
            try {
                producer = newProducer();
                producer.initTransactions();
                rewind();
                while (!stopping) {
                    transaction();
                }
            } catch (KafkaException refused) {
                report("the producer is replaced: " + refused);
                producer.close(Duration.ZERO);
            }
        }
        producer.close(Duration.ofSeconds(CLOSE_SECONDS));
        consumer.close();
        stopped.countDown();
    }

    /** Raises when the producer is of no more use. */
    private void transaction() {
        batch = new ArrayList<>();
        consumer.poll(POLL).forEach(batch::add);
        if (batch.isEmpty()) {
            return;
        }
        ConsumerGroupMetadata member = consumer.groupMetadata();
        String transaction = name + "-" + ++number;
        producer.beginTransaction();
        boolean commits = random.nextDouble() >= abortProbability;
        try {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (var record : batch) {
                produce(record, transaction);
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, member);
            if (commits) {
                events.println("ending " + transaction + " commit");
                commit();
                return;
            }
            producer.flush();
            events.println("ending " + transaction + " abort");
        } catch (AuthorizationException refused) {
            throw refused;
        } catch (KafkaException refused) {
            report("aborting: " + refused);
        }
        producer.abortTransaction(); // raises if the producer is fenced
        rewind();
    }

    /** Again after a timeout: only then is the outcome known. */
    private void commit() {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException refused) {
                report("again: " + refused);
            }
        }
    }

    private void produce(ConsumerRecord<String, String> record, String transaction) {
        int key = Integer.parseInt(record.key());
        long transformed = 3 * Long.parseLong(record.value()) + 1;
        String value = transformed + " " + record.partition() + ":" + record.offset() + " " + transaction;
        producer.send(new ProducerRecord<>(given.get("name") + "-output", key / partitions % partitions, record.key(), value));
    }

    /** Continues at the committed offsets. */
    private void rewind() {
        var assigned = consumer.assignment();
        var committed = consumer.committed(assigned);
        for (TopicPartition partition : assigned) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }

    void stop() {
        stopping = true;
        try {
            stopped.await(CLOSE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void report(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws IOException {
        var application = new ConsumeTransformProduce(arguments);
        Runtime.getRuntime().addShutdownHook(new Thread(application::stop));
        application.run();
    }
}
