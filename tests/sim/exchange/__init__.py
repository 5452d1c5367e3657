"""Two clusters whose mirrors copy a topic both ways under the same name, in transactions."""
