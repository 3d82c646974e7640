"""Portico on several hosts, simulated on one machine, for `script/cluster`."""
