"""KRaft consensus for the metadata log, as a pure core.

Files in reading order: `types`, `messages`, `events` (the vocabulary), `config` (every bound), `roles` (states and legal transitions),
`log_view`, `voters`, `quorum`, `requests`, `outbox` (parts), `state` (what the handlers share), then the handlers by subject: `election`,
`follower`, `leader`, `commit`, `snapshots`, `membership`; `node` dispatches.
"""
