"""The agent: the one part of a fleet that is privileged."""
