-- What was done by hand that changes records: one row for each, without private data.
create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  -- What kind of right it was done with, never who or which secret: admin_token.
  actor text not null,
  action text not null,
  -- Ids, times, names of models, and counts.
  detail jsonb not null
);
create index audit_log_by_time on audit_log (at);
