-- Trace context (W3C traceparent) of the sampled work that caused a row. Versions before ignore it.
alter table outbox add column trace text;
