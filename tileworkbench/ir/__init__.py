"""What a kernel is: types, expressions, statements, printer, verifier, rewrite."""
