"""Views of a running script: blocks redrawn in place, the full-screen view, the page in a browser."""
