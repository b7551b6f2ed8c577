"""The commit loop: the only room that puts a version."""
