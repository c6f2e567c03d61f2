"""How explanations are shown: figures, tables, reports. Needs the extra `plots`, except for tables."""
