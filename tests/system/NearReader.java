import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints every value of partition 0, and the metric preferred-read-replica whenever it changes: "value V" and "replica N". */
public class NearReader {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.rack", arguments[2]);
        settings.put("auto.offset.reset", "none");
        settings.put("reconnect.backoff.max.ms", "200");
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            int shown = -1;
            while (!System.out.checkError()) {
                for (var record : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("value " + record.value());
                }
                int replica = preferred(consumer);
                if (replica != shown) {
                    System.out.println("replica " + replica);
                    shown = replica;
                }
            }
        }
    }

    private static int preferred(KafkaConsumer<?, ?> consumer) {
        return consumer.metrics().values().stream()
            .filter(metric -> metric.metricName().name().equals("preferred-read-replica"))
            .mapToInt(metric -> ((Number) metric.metricValue()).intValue())
            .findFirst().orElse(-1);
    }
}
