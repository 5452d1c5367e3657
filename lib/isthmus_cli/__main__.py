"""`python -m isthmus_cli`: the command without the console script."""

from isthmus_cli.main import main

main()
