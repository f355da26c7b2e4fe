"""What an editor asks about a script, answered without tracing anything: findings, completion, hovers, definitions,
renaming. All but :mod:`.server`, which speaks the Language Server Protocol, is plain data by character offsets."""
