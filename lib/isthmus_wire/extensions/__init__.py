"""Isthmus's own APIs, which Kafka does not have. Their keys begin at 20000, far above Kafka's. The table lists them all:

| key | name | handled by | purpose |
|---|---|---|---|
| 20000 | DescribeReplicas | the leader of each partition | the lag of every replica: leader, followers, observers |
| 20001 | CreateLink | any broker, for the active controller | create a link to a source cluster |
| 20002 | DescribeLinks | any broker | links with settings, state and tasks |
| 20003 | AlterLink | any broker, for the active controller | settings of a link |
| 20004 | DeleteLink | any broker, for the active controller | delete a link |
| 20005 | ReportLink | any broker, for the active controller | a link's state as a linker observed it |
| 20006 | CreateMirror | any broker, for the active controller | a mirror topic |
| 20007 | DescribeMirrors | any broker | mirror topics with their states |
| 20008 | AlterMirrors | any broker, for the active controller | pause, resume, promote, failover, and the states that workers report |
| 20009 | AppendMirrored | the leader of each partition | batches of the source, at their offsets |
| 20010 | DescribeMirrorProgress | the leader of each partition | the log end offsets of the copy and of its source |
| 20011 | RaiseLeaderEpochs | any broker, for the active controller | leader epochs that stay above the source's |
| 20012 | AppendAfter | the leader of each partition | batches to append behind a given last batch |

ApiVersions lists them only to clients that call themselves `isthmus`, so that Kafka's tools see Kafka's list. All versions are flexible.
The classes are built like kio's and use the same codec.
"""

from collections.abc import Mapping
from typing import Final

from isthmus_wire.extensions import append_after, links, mirrors, replicas
from isthmus_wire.extensions.message import Message

FIRST_OWN_KEY: Final = 20_000

_PAIRS: Final[tuple[tuple[type[Message], type[Message]], ...]] = (
    (replicas.DescribeReplicasRequest, replicas.DescribeReplicasResponse),
    (links.CreateLinkRequest, links.CreateLinkResponse),
    (links.DescribeLinksRequest, links.DescribeLinksResponse),
    (links.AlterLinkRequest, links.AlterLinkResponse),
    (links.DeleteLinkRequest, links.DeleteLinkResponse),
    (links.ReportLinkRequest, links.ReportLinkResponse),
    (mirrors.CreateMirrorRequest, mirrors.CreateMirrorResponse),
    (mirrors.DescribeMirrorsRequest, mirrors.DescribeMirrorsResponse),
    (mirrors.AlterMirrorsRequest, mirrors.AlterMirrorsResponse),
    (mirrors.AppendMirroredRequest, mirrors.AppendMirroredResponse),
    (mirrors.DescribeMirrorProgressRequest, mirrors.DescribeMirrorProgressResponse),
    (mirrors.RaiseLeaderEpochsRequest, mirrors.RaiseLeaderEpochsResponse),
    (append_after.AppendAfterRequest, append_after.AppendAfterResponse),
)
REQUESTS: Final[Mapping[int, type[Message]]] = {request.__api_key__: request for request, _ in _PAIRS}
RESPONSES: Final[Mapping[int, type[Message]]] = {response.__api_key__: response for _, response in _PAIRS}
