"""What passes between a coordinator and its agents, and how."""
