"""Only replicas may be in sync or eligible, and observers only if they are promoted."""

from __future__ import annotations

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import Promotion, constraints_of

from tests.sim.world import Violation


class MembersAreReplicas:
    def committed(self, before: ClusterImage, after: ClusterImage) -> None:
        for topic_id, topic in after.topics.by_id.items():
            now = topic.partitions[0]
            old = before.topics.by_id.get(topic_id)
            was = now if old is None else old.partitions[0]
            constraints = constraints_of(after.config(ResourceType.TOPIC, topic.name))
            wrong = _wrong(was, now, Promotion.NEVER if constraints is None else constraints.promotion)
            if wrong is not None:
                raise Violation(f"{topic.name}: {wrong}: {now}")


def _wrong(was: PartitionRecord, now: PartitionRecord, promotion: Promotion) -> str | None:
    isr, eligible, observers = set(now.isr), set(now.eligible_leader_replicas or ()), set(now.observers or ())
    replicas = set(now.replicas)
    joining = (isr - set(was.isr)) & observers
    rules = {
        "a broker in sync is not a replica": isr <= replicas,
        "an eligible broker is not a replica": eligible <= replicas,
        "an observer is not a replica": observers <= replicas,
        "a replica is named twice": len(replicas) == len(now.replicas) and len(isr) == len(now.isr),
        "an observer is eligible to lead": not eligible & observers,
        "in sync and eligible at once": not eligible & isr,
        "the leader is not in sync": now.leader < 0 or now.leader in isr,
        "an observer joins without need": not joining or promotion is not Promotion.NEVER or joining == {now.leader},
    }
    return next((rule for rule, holds in rules.items() if not holds), None)
