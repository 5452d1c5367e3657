"""The oracle: the same requests to Apache Kafka and to a node, and the answers compared field by field.

Reading order: `messages` (plain values to bytes and back), `talk` (one exchange with one broker), `rules` (what must differ), `exchanges`
(the scripts), `recording` (Kafka's answers as data), `compare`, `choices` (what differs because we want it to).
"""
