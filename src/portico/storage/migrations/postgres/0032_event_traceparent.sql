-- The span of the change that an event tells of, as W3C Trace Context has it, for its deliveries.
-- compatible from: 28
ALTER TABLE events ADD COLUMN traceparent TEXT;
