import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Arguments: a topic, and the producer's settings as name=value. Sends a record every five milliseconds until the standard input ends. For
 * a line that it reads there it prints one, when a record that it sent after it is acknowledged.
 */
public class JavaStream {
    private static final long PAUSE_MS = 5;

    private final KafkaProducer<byte[], byte[]> producer;
    private final ProducerRecord<byte[], byte[]> record;
    private volatile int lines;
    private int answered;

    JavaStream(String topic, Map<String, Object> settings) {
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        record = new ProducerRecord<>(topic, new byte[100]);
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, Object> settings = new HashMap<>();
        for (int index = 1; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        var stream = new JavaStream(arguments[0], settings);
        var sender = new Thread(stream::send);
        sender.setDaemon(true);
        sender.start();
        var input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {
            stream.lines++;
        }
    }

    private void send() {
        try {
            while (true) {
                int before = lines;
                producer.send(record, (place, failure) -> {
                    if (failure == null) {
                        answer(before);
                    }
                });
                Thread.sleep(PAUSE_MS);
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** In the producer's own thread. */
    private void answer(int line) {
        if (line > answered) {
            answered = line;
            System.out.println();
        }
    }
}
