"""Tables of our own: servers, jobs, users and events as CSV or Parquet."""
