-- What operators find a workflow by, and signals: a row with one starts its workflow where it does not run, and signals it.
alter table outbox add column project_id uuid;
alter table outbox add column signal text;
alter table outbox add column signal_input jsonb;
