"""Tables and results on disk, CSV and Parquet: read and written a batch at a time, in bounded memory."""
