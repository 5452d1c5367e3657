import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs the commands of tests/conformance/clients/transactional.py, one a line, on partition 0 of topics. */
public class TransactionalClient {
    private static String bootstrap;
    private static KafkaProducer<String, String> producer;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Properties settings = common();
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", arguments[2]);
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        execute("init");
        var commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            execute(line.split(" "));
        }
        producer.close(Duration.ZERO);
    }

    private static Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static void execute(String... command) {
        try {
            System.out.println("ok " + String.join(" ", perform(command)));
        } catch (Exception refused) {
            Throwable cause = refused instanceof ExecutionException ? refused.getCause() : refused;
            boolean fenced = cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException;
            System.out.println((fenced ? "fenced " : "refused ") + cause.toString().replace('\n', ' '));
        }
        System.out.flush();
    }

    private static List<String> perform(String[] command) throws Exception {
        switch (command[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(command[1], 0, null, command[2])).get();
            case "offset" -> sendOffset(command[1], new TopicPartition(command[2], 0), Long.parseLong(command[3]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "read" -> {
                return read(command[1], command[2], command[3]);
            }
            default -> throw new IllegalArgumentException(command[0]);
        }
        return List.of();
    }

    /** With the metadata of a consumer that is no member of the group. */
    private static void sendOffset(String group, TopicPartition partition, long offset) {
        Properties settings = common();
        settings.put("group.id", group);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset)), consumer.groupMetadata());
        }
    }

    private static List<String> read(String topic, String isolation, String end) {
        Properties settings = common();
        settings.put("isolation.level", isolation);
        settings.put("auto.offset.reset", "none");
        List<String> values = new ArrayList<>();
        var partition = new TopicPartition(topic, 0);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (!values.contains(end)) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }
}
