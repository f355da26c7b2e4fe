"""The context of each kind of program: where its arguments are."""
