"""The commands: their options, `--help` and exit status. The work is done in the other packages."""
