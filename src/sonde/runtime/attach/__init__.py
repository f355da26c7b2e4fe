"""Loading programs and attaching them."""
