"""AWS Glue: tables by name."""
