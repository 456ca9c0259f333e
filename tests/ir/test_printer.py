"""The printer: stable, readable, complete."""
