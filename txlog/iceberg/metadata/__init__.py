"""Pure: Delta commits to Iceberg metadata (schemas, manifests, manifest lists, table metadata), as values and bytes."""
