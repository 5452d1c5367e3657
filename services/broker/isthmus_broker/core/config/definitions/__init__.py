"""Every configuration by kind: Kafka 4.3.1's, kept equal to a recording of Kafka by tests/unit/config, and our own."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Definitions
from isthmus_broker.core.config.definitions.broker_cleaner import CLEANER
from isthmus_broker.core.config.definitions.broker_groups import GROUPS
from isthmus_broker.core.config.definitions.broker_log import LOG
from isthmus_broker.core.config.definitions.broker_network import NETWORK
from isthmus_broker.core.config.definitions.broker_quorum import QUORUM
from isthmus_broker.core.config.definitions.broker_quotas import QUOTAS
from isthmus_broker.core.config.definitions.broker_remote import REMOTE
from isthmus_broker.core.config.definitions.broker_replication import REPLICATION
from isthmus_broker.core.config.definitions.broker_sasl import SASL
from isthmus_broker.core.config.definitions.broker_security import SECURITY
from isthmus_broker.core.config.definitions.broker_server import SERVER
from isthmus_broker.core.config.definitions.broker_share import SHARE
from isthmus_broker.core.config.definitions.broker_streams import STREAMS
from isthmus_broker.core.config.definitions.broker_transactions import TRANSACTIONS
from isthmus_broker.core.config.definitions.client_metrics import CLIENT_METRICS
from isthmus_broker.core.config.definitions.group import GROUP
from isthmus_broker.core.config.definitions.own import OWN_BROKER, OWN_TOPIC
from isthmus_broker.core.config.definitions.topic import TOPIC

TOPIC_CONFIGS = Definitions((*TOPIC, *OWN_TOPIC))
BROKER_CONFIGS = Definitions(
    (
        *CLEANER,
        *GROUPS,
        *LOG,
        *NETWORK,
        *OWN_BROKER,
        *QUORUM,
        *REMOTE,
        *REPLICATION,
        *SASL,
        *SECURITY,
        *SERVER,
        *SHARE,
        *STREAMS,
        *TRANSACTIONS,
    )
)
DYNAMIC_ONLY_BROKER_CONFIGS = Definitions(QUOTAS)
GROUP_CONFIGS = Definitions(GROUP)
CLIENT_METRICS_CONFIGS = Definitions(CLIENT_METRICS)
