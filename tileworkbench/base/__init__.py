"""Facts that know no compiler: source spans, errors, dtypes, machines."""
