"""The oracle: the same requests to Apache Kafka and to a node, and the responses compared field by field.

Reading order: `messages` (plain values to bytes and back), `talk` (one exchange with one broker), `rules` (what must differ), `exchanges`
(the scripts), `recording` (Kafka's responses as data), `compare`, `choices` (intended differences).
"""
