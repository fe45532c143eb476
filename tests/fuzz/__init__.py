"""A fuzzer for every door through which files and numbers come in; `make fuzz` runs it for minutes."""
