"""Data that is already there: clones, conversions, COPY INTO, files that are added."""
