"""What pre-training learns from a corpus. A new objective is a file here and a row in `registry`."""
