-- Calls that the gateway refused before they reached a vendor (src/usage/refusals). They have no text and no end user. The id is the call's.
create table refused_calls (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  key_id uuid not null,
  key_prefix text not null,
  -- Null if the call was refused before we read its headers or its body.
  source text,
  requested_model text,
  route text not null,
  status integer not null,
  code text not null,
  -- From src/core/refusal.ts.
  reason text not null,
  -- A ceiling with its window (`calls/day`), the class of a content rule, or the missing tags.
  rule text,
  -- The limit of the ceiling, in calls, tokens or nano-dollars.
  rule_limit bigint
);
create index refused_calls_by_project on refused_calls (project_id, id desc);
create index refused_calls_by_reason on refused_calls (project_id, reason, id desc);
create index refused_calls_by_key on refused_calls (project_id, key_prefix, id desc);
create index refused_calls_by_source on refused_calls (project_id, source, id desc);

-- All refused calls by the minute, including those without a row, because only some of a key's refused calls in a minute get one.
create table refused_call_counts (
  project_id uuid not null references projects on delete cascade,
  minute timestamptz not null,
  key_prefix text not null,
  reason text not null,
  calls bigint not null,
  recorded bigint not null,
  primary key (project_id, minute, key_prefix, reason)
);
create index refused_call_counts_by_minute on refused_call_counts (minute);
