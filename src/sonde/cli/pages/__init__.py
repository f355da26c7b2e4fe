"""What Sonde says of itself: ``sonde --help``, and manual pages."""
