// Asks Apache Kafka's own classes, and one running node, what its configurations are. Prints one JSON document.
// Run as a single-file program: java -cp 'LIBS/*' Dump.java BOOTSTRAP_SERVERS
// Documentation texts are left out on purpose: they are not ours to keep.

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class Dump {
    // What is given to every key to hear whether, and with which words, it is refused.
    static final String[] PROBES = {
        "", " ", "-3", "-2", "-1", "0", "1", " 7 ", "+5", "1.5", "1e3", "-0.1", "4294967296", "9223372036854775808", "abc", "TRUE", "falsE",
        "a,b", "a,a", ",", "delete", "compact, delete", "uncompressed", "GZIP", "LogAppendTime", "0:1", "*", "0x10", "1_000", "\u0663"
    };

    public static void main(String[] args) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        Map<String, ConfigDef> definitions = new LinkedHashMap<>();
        definitions.put("topic", LogConfig.configDefCopy());
        definitions.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        definitions.put("broker_dynamic_only", QuotaConfig.brokerQuotaConfigs());
        definitions.put("group", GroupConfig.CONFIG_DEF);
        definitions.put("client_metrics", ClientMetricsConfigs.configDef());
        Map<String, Object> keys = new LinkedHashMap<>();
        Map<String, Object> probes = new LinkedHashMap<>();
        definitions.forEach((kind, definition) -> {
            keys.put(kind, keys(definition));
            probes.put(kind, probes(definition));
        });
        out.put("definitions", keys);
        out.put("topic_synonyms", topicSynonyms());
        out.put("group_synonyms", groupSynonyms());
        out.put("dynamic_broker_keys", new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes()));
        out.put("probes", probes);
        if (args.length > 0) out.put("described", described(args[0]));
        System.out.println(json(out));
    }

    static Map<String, Object> keys(ConfigDef definition) {
        Map<String, Object> result = new TreeMap<>();
        definition.configKeys().forEach((name, key) -> {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("type", key.type.name());
            entry.put("required", !key.hasDefault());
            entry.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            entry.put("validator", validator(key));
            entry.put("importance", key.importance.name());
            entry.put("internal", key.internalConfig);
            result.put(name, entry);
        });
        return result;
    }

    // A list's validator does not say whether it takes an empty list or none at all, so its fields are read.
    static String validator(ConfigDef.ConfigKey key) {
        if (!(key.validator instanceof ConfigDef.ValidList list)) return key.validator == null ? null : key.validator.toString();
        try {
            StringBuilder text = new StringBuilder("list of " + (list.toString().isEmpty() ? "any" : list.toString()));
            for (String name : List.of("isEmptyAllowed", "isNullAllowed")) {
                var field = ConfigDef.ValidList.class.getDeclaredField(name);
                field.setAccessible(true);
                if (field.getBoolean(list)) text.append(name.equals("isEmptyAllowed") ? " or empty" : " or null");
            }
            return text.toString();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static Map<String, Object> probes(ConfigDef definition) {
        // One key of every combination of type and validator is enough: which key has which is recorded above.
        Map<String, Object> result = new TreeMap<>();
        TreeSet<String> asked = new TreeSet<>();
        new TreeMap<>(definition.configKeys()).forEach((name, key) -> {
            if (!asked.add(key.type + " " + validator(key) + (key.validator == null ? "" : key.validator.getClass().getName()))) return;
            Map<String, Object> answers = new LinkedHashMap<>();
            for (String probe : PROBES) answers.put(probe, probe(key, probe));
            result.put(name, answers);
        });
        return result;
    }

    static Map<String, Object> probe(ConfigDef.ConfigKey key, String text) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) key.validator.ensureValid(key.name, value);
            answer.put("value", ConfigDef.convertToString(value, key.type));
        } catch (ConfigException e) {
            answer.put("refused", e.getMessage());
        } catch (RuntimeException e) {
            answer.put("broken", e.getClass().getName());
        }
        return answer;
    }

    static Map<String, Object> topicSynonyms() {
        Map<String, Object> result = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            List<Object> list = new ArrayList<>();
            for (ConfigSynonym synonym : synonyms) {
                Map<String, Object> entry = new LinkedHashMap<>();
                entry.put("name", synonym.name());
                entry.put("seven_becomes", synonym.converter().apply("7"));
                list.add(entry);
            }
            result.put(name, list);
        });
        return result;
    }

    static Map<String, Object> groupSynonyms() {
        Map<String, Object> result = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, broker) -> result.put(name, broker.orElse(null)));
        return result;
    }

    static Map<String, Object> described(String bootstrap) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            admin.createTopics(List.of(new NewTopic("config-dump", 1, (short) 1))).all().get();
            String node = admin.describeCluster().nodes().get().iterator().next().idString();
            Map<String, ConfigResource> resources = new LinkedHashMap<>();
            resources.put("topic", new ConfigResource(ConfigResource.Type.TOPIC, "config-dump"));
            resources.put("broker", new ConfigResource(ConfigResource.Type.BROKER, node));
            resources.put("broker_default", new ConfigResource(ConfigResource.Type.BROKER, ""));
            resources.put("group", new ConfigResource(ConfigResource.Type.GROUP, "config-dump"));
            resources.put("client_metrics", new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "config-dump"));
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
            Map<ConfigResource, Config> answers = admin.describeConfigs(resources.values(), options).all().get();
            Map<String, Object> result = new LinkedHashMap<>();
            resources.forEach((kind, resource) -> result.put(kind, entries(answers.get(resource))));
            return result;
        }
    }

    static Map<String, Object> entries(Config config) {
        Map<String, Object> result = new TreeMap<>();
        for (ConfigEntry entry : config.entries()) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("value", entry.value());
            fields.put("source", entry.source().name());
            fields.put("sensitive", entry.isSensitive());
            fields.put("read_only", entry.isReadOnly());
            fields.put("type", entry.type().name());
            List<Object> synonyms = new ArrayList<>();
            for (ConfigEntry.ConfigSynonym synonym : entry.synonyms()) {
                Map<String, Object> fieldsOfSynonym = new LinkedHashMap<>();
                fieldsOfSynonym.put("name", synonym.name());
                fieldsOfSynonym.put("value", synonym.value());
                fieldsOfSynonym.put("source", synonym.source().name());
                synonyms.add(fieldsOfSynonym);
            }
            fields.put("synonyms", synonyms);
            result.put(entry.name(), fields);
        }
        return result;
    }

    static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) return String.valueOf(value);
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((k, v) -> parts.add(json(k) + ":" + json(v)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof Collection<?> list) {
            List<String> parts = new ArrayList<>();
            list.forEach(v -> parts.add(json(v)));
            return "[" + String.join(",", parts) + "]";
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        return text.append('"').toString();
    }
}
