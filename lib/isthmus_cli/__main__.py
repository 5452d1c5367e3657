"""`python -m isthmus_cli`: the command without the console script, for processes that start others of their kind."""

from isthmus_cli.main import main

main()
