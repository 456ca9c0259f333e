"""Pictures of values: each view has `.data`, a text twin, and an SVG, PNG or HTML form that needs no network, no script and no style sheet."""
