"""`python -m tracoco` is the `tracoco` command."""

from tracoco.cli import main

main()
