"""The shipped test kit; nothing in txlog imports it."""
