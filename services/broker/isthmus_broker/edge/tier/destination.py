"""The destination of copies that a node's settings name."""

import threading
from pathlib import Path

from isthmus_tier.edge.encryption import BadKeys, KeyRing, read_keys
from isthmus_tier.edge.open_store import UnknownStore, open_store
from isthmus_tier.edge.store import StoreError

from isthmus_broker.core.config.definitions.own import (
    REMOTE_STORE,
    REMOTE_STORE_COMPRESSION,
    REMOTE_STORE_ENDPOINT,
    REMOTE_STORE_KEYS,
)
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.edge.tier.segment_copy import Destination


def open_destination(config: NodeConfig, cluster_id: str) -> Destination:
    """Open the store, and read the keys; raises ConfigRefused."""
    texts = {name: str(config.values[name]) for name in (REMOTE_STORE, REMOTE_STORE_ENDPOINT, REMOTE_STORE_KEYS)}
    try:
        store = open_store(texts[REMOTE_STORE], texts[REMOTE_STORE_ENDPOINT] or None)
    except (UnknownStore, StoreError) as error:
        raise ConfigRefused(f"{REMOTE_STORE}: {error}") from error
    keys: KeyRing | None = None
    if texts[REMOTE_STORE_KEYS]:
        try:
            keys = read_keys(Path(texts[REMOTE_STORE_KEYS]))
        except BadKeys as error:
            raise ConfigRefused(f"{REMOTE_STORE_KEYS}: {error}") from error
    return Destination(store, cluster_id, config.values[REMOTE_STORE_COMPRESSION] is True, keys, threading.Event())
