"""The ground floor: what everything else may use, and what uses nothing of ours."""
