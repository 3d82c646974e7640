"""Portico on many hosts, on one machine: what `script/cluster` starts, and what it drills."""
