"""What a coordinator knows of its hosts, and what they have told, merged."""
