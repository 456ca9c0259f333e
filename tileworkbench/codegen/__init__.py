"""Lowered IR -> text; decides nothing."""
