"""The store of results: rows in Parquet files, the identity of a measurement, and the published results."""
