"""The command line: from words to a run."""
