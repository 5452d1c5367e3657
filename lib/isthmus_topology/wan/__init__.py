"""The distance between regions: relays that delay, limit and cut what crosses from one to another."""
