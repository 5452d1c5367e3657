"""KRaft consensus for the metadata log.

It owns a replica's role, its voters and its view of the log; the log and the quorum state survive a crash. It follows
the contract of cores to the letter.

Files in reading order: `types`, `messages`, `events` (the vocabulary), `config` (every bound), `roles` (states and legal transitions),
`log_view`, `voters`, `quorum`, `requests`, `outbox` (parts), `state` (what the handlers share), then the handlers by subject: `election`,
`follower`, `leader`, `commit`, `snapshots`, `membership`; `node` dispatches.
"""
