"""Where results are kept: rows as Parquet files, what identifies a row, and the published figures."""
