"""A fleet shown: text, JSON, the live view, top and serve."""
