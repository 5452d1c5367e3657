"""The broker's decisions, without I/O.

A core is a plain synchronous object. It opens no file and no socket, reads no clock and no randomness, starts no thread and writes no log.
Its driver, asyncio at the edge or a simulated world in the tests, passes events and the time to it, and carries out what it returns. So one
seed replays thousands of simulated lives, and a decision can be read without knowing how it is carried out.

Driving a core

    core.step(event, now)             a message, a client's request, or the result of an effect
    core.tick(now)                    time has passed; early, late or twice is harmless
    deadline = core.deadline()        when `tick` is next worth calling; None when only an event can change anything

After each of these calls the driver takes the effects, and handles the values in the order in which it took them:

    ready = core.take()
    read    what `ready` needs from storage, before its own writes
    write   ready.persist                  in order, so that a crash leaves a prefix of the writes
    send    ready.send_now, ready.replies  at once: they promise nothing that a crash could undo
    log     ready.notes                    may be dropped; nothing depends on them
    sync, then core.persisted(ready.mark, now), then send ready.send_after_persist

Durable effects are separate on purpose: a vote or an acknowledgement that a crash would undo can only be found in `send_after_persist`, and
is sent only when this value and every earlier one are durable. The network may lose, repeat or reorder messages without harm; writes must
all happen, in order. After a crash a new core starts from what was durable.

Rules for a core

  - Time is an argument: monotonic for deadlines, wall time for timestamps, with different types. Randomness is an injected object,
    identifiers come from the driver, and no set is iterated into an output unsorted.
  - What a remote party sends never raises: the response is Kafka's error code. A failed assertion is a bug; the driver ends the process.
  - A state machine is a table: the states and their legal transitions are next to each other, and any other transition fails an assertion
    (`raft/roles`, `replica/replica`, `replica/isr_proposals`, `links/transitions`).

Which packages follow the contract

  - `raft` to the letter; `contract` has the types.
  - `coordinator`, and with it `group`: the partition's log is the disk, an append is the durable write, the high watermark is the sync, and
    responses wait for it.
  - `metadata`: an operation returns records and a response, which waits until the records are committed.
  - `log` and `replica` are part of every produce and fetch: they are called directly, and return what to write before the next call.
  - `config`, `links` and `security` have no state: they are functions of their arguments.
"""
