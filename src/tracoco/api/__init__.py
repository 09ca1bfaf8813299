"""One Python function for each command; the commands of `cli` parse, call these and print."""
