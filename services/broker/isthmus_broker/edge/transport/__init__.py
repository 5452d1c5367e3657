"""Sockets: accepting, framing, one request at a time per connection, responses in order, and backpressure."""
