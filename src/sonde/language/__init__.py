"""Text to syntax: source and spans, diagnostics, lexer, C declarations, parser."""
