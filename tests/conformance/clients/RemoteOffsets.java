import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints "partition offset" for each of a group's partitions, as MirrorMaker's readers translate them; then "upstream A hops N". */
public class RemoteOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        var found = RemoteClusterUtils.translateOffsets(settings, arguments[1], arguments[2], Duration.ofSeconds(20));
        var sorted = new TreeMap<String, Long>();
        found.forEach((partition, at) -> sorted.put(partition.toString(), at.offset()));
        sorted.forEach((partition, offset) -> System.out.println(partition + " " + offset));
        for (String alias : RemoteClusterUtils.upstreamClusters(settings)) {
            System.out.println("upstream " + alias + " hops " + RemoteClusterUtils.replicationHops(settings, alias));
        }
    }
}
