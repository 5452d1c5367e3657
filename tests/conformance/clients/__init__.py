"""What the tests of real clients share."""
