"""The core: complete without any extension, and private."""
