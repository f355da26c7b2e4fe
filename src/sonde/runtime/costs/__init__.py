"""What tracing costs, and the budget that bounds it."""
