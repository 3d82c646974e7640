-- By which the leases of processes that were killed are found.
CREATE INDEX leases_by_end ON leases (until);
