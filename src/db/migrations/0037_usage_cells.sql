-- Usage by several attributes of calls together, which charts and lists with filters read instead of call rows (src/usage/cells). A background
-- loop sums the calls of each hour once the hour is over. Triggers note the hours whose calls have changed since, whichever version of the
-- server stores them; these are read from call rows until they are summed again.

create table usage_cells (
  project_id uuid not null,
  -- Attempts in the scope `provider`, calls in all others.
  scope text not null check (scope in ('project', 'key', 'source', 'agent', 'provider')),
  -- In UTC.
  span text not null check (span in ('hour', 'day')),
  start timestamptz not null,
  -- Prefix of the key, application, agent or provider. Null: the project, or calls without.
  name text,
  model text,
  status integer not null,
  code text,
  outcome text not null,
  -- Of the scope `project` only; null in the others.
  route text,
  cache text,
  failed_over boolean,
  priced boolean,
  calls bigint not null,
  errors bigint not null,
  unpriced bigint not null,
  cost_nanos numeric not null,
  tokens_input numeric not null,
  tokens_cached_input numeric not null,
  tokens_cache_write numeric not null,
  tokens_output numeric not null,
  cache_hits bigint not null,
  cache_lookups bigint not null,
  failovers bigint not null,
  -- As in usage_increments.
  durations bigint[],
  first_chunks bigint[]
);
create index usage_cells_by_start on usage_cells (project_id, scope, span, start, name);

-- Hours and days whose cells are missing or outdated. A transaction only appends, so that none waits for another one.
create table usage_outdated (
  project_id uuid not null,
  span text not null check (span in ('hour', 'day')),
  start timestamptz not null
);
create index usage_outdated_by_start on usage_outdated (project_id, start);

-- Cells exist, or are noted as outdated, for hours with calls from here on: a start of a day. Calls of before are added by day, the latest first.
create table usage_cells_fill (filled_from timestamptz not null);
insert into usage_cells_fill
select case when exists (select 1 from calls) then 'infinity' else '-infinity' end::timestamptz;

create function note_changed_usage() returns trigger language plpgsql as $$ begin
  insert into usage_outdated (project_id, span, start)
  select distinct project_id, 'hour', date_trunc('hour', started_at, 'UTC') from changed;
  return null;
end $$;

create function note_updated_usage() returns trigger language plpgsql as $$
declare
  erased record;
begin
  insert into usage_outdated (project_id, span, start)
  select distinct changed.project_id, 'hour', date_trunc('hour', changed.started_at, 'UTC')
    from changed join before using (id)
   where (changed.cost_nanos, changed.outcome, changed.status, changed.code, changed.model, changed.source, changed.agent_id)
         is distinct from (before.cost_nanos, before.outcome, before.status, before.code, before.model, before.source, before.agent_id);
  -- The agent of an erased call: its name must not stay. The lock keeps the loop from summing what is not erased yet.
  for erased in
    select before.project_id, array_agg(distinct before.agent_id) as agents, array_agg(distinct times.start) as starts
      from changed join before using (id)
     cross join lateral (
       values (date_trunc('hour', before.started_at, 'UTC')), (date_trunc('day', before.started_at, 'UTC'))
     ) as times (start)
     where before.agent_id is distinct from changed.agent_id and before.agent_id is not null
     group by before.project_id order by before.project_id
  loop
    perform pg_advisory_xact_lock(7263005);
    delete from usage_cells
     where project_id = erased.project_id and scope = 'agent' and span in ('hour', 'day') and start = any(erased.starts)
       and name = any(erased.agents);
  end loop;
  return null;
end $$;

-- Attempts are stored in the transaction of their call, and corrected at times without it.
create function note_updated_attempts() returns trigger language plpgsql as $$ begin
  insert into usage_outdated (project_id, span, start)
  select distinct calls.project_id, 'hour', date_trunc('hour', calls.started_at, 'UTC') from changed join calls on calls.id = changed.call_id;
  return null;
end $$;

create trigger note_added_calls after insert on calls referencing new table as changed for each statement execute function note_changed_usage();
create trigger note_deleted_calls after delete on calls referencing old table as changed for each statement execute function note_changed_usage();
create trigger note_updated_calls after update on calls referencing old table as before new table as changed
  for each statement execute function note_updated_usage();
create trigger note_updated_attempts after update on attempts referencing new table as changed
  for each statement execute function note_updated_attempts();
