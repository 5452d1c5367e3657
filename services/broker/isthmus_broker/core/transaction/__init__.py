"""The transaction coordinator: the state of every transactional id of one partition of __transaction_state.

    states          the states, and the table of legal transitions
    records         a transactional id's record, in Kafka's formats
    requests        the requests to the coordinator, and its responses
    producers       InitProducerId: a new epoch or a new id, and the fencing of the producer before
    transitions     a transaction's way through the states: partitions, the decision, the completion
    markers         decided transactions, and the partitions whose markers are outstanding
    shard           the state machine for `coordinator.runtime`
    listing         DescribeTransactions and ListTransactions

A transition is a function from a state, a request and the time to the next state or an error. A decision counts once its record is
committed: only then are the markers written. A transaction is complete when every partition has its marker.
"""
