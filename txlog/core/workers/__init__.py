"""Where tasks run: in this process's threads here, and elsewhere by whatever implements `Workers`."""
