"""The test kit that ships with txlog. No other room of txlog imports it."""
