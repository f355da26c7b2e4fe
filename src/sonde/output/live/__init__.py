"""What is seen while a script runs: blocks redrawn in place, the full-screen view, the page in a browser."""
