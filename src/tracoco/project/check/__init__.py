"""Every problem of a data set at once, before it costs anyone an hour."""
