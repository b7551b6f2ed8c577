"""The core: complete without any extension, and private. The files beside its rooms are tools that work alone."""
