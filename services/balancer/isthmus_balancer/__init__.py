"""The balancer: spreads load over the brokers of a cluster."""
