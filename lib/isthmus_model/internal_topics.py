"""The names of topics that Kafka and Isthmus keep for themselves."""

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of the controllers; never a topic that clients see."""
REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
"""What is in the tier. Not internal for clients, as in Kafka."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Topics that Kafka marks as internal: only coordinators write them."""

ISTHMUS_PREFIX: Final = "__isthmus_"
LAG_TOPIC: Final = "__isthmus_lag"
LOAD_TOPIC: Final = "__isthmus_metrics"
BALANCER_TOPIC: Final = "__isthmus_balancer"
MIRROR_PROGRESS_PREFIX: Final = "__isthmus_mirror_offsets."
"""Followed by the alias of the source cluster."""
