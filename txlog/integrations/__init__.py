"""What programs that people already run need of txlog: a file for each, which imports that program's package."""
