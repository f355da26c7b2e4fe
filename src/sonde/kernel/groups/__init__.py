"""Control groups, and the containers, pods and services that they belong to."""
