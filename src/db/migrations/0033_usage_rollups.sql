-- Usage by time, which charts, reports and new counters read instead of call rows (src/usage/rollups). Triggers write usage_increments in the
-- transaction that changes call rows, whichever version of the server does it. merge_usage_increments moves them to usage_rollups.

-- False for the calls of before this migration, which fill_usage_rollups adds.
alter table calls add column in_rollups boolean not null default false;
alter table calls alter column in_rollups set default true;

-- Calls without in_rollups are in the rollups from this id on.
create table usage_rollup_fill (filled_from uuid not null);
insert into usage_rollup_fill
select case when exists (select 1 from calls) then 'ffffffff-ffff-ffff-ffff-ffffffffffff' else '00000000-0000-0000-0000-000000000000' end::uuid;

-- What transactions have changed and no merge has included yet. A transaction only appends, so that none waits for another one.
create table usage_increments (
  project_id uuid not null,
  scope text not null,
  -- Id of the key, application, model or task. Null: the project, or calls without.
  name text,
  -- Of a key.
  key_prefix text,
  -- A minute.
  start timestamptz not null,
  calls bigint not null,
  vendor_calls bigint not null,
  vendor_tokens numeric not null,
  slots bigint not null,
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
  -- Histograms of successful calls, and of successful streams: elements of slot + 1024 * calls, in any order. A slot may have several.
  durations bigint[],
  first_chunks bigint[]
);
create index usage_increments_by_scope on usage_increments (project_id, scope, start);
create index usage_increments_by_start on usage_increments (start);

create table usage_rollups (
  project_id uuid not null,
  scope text not null check (scope in ('project', 'key', 'source', 'model', 'task')),
  -- 15 minutes, a day or a month in UTC. Tasks have no quarters.
  span text not null check (span in ('quarter', 'day', 'month')),
  start timestamptz not null,
  name text,
  key_prefix text,
  calls bigint not null,
  vendor_calls bigint not null,
  vendor_tokens numeric not null,
  slots bigint not null,
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
  -- As above, with one element for each slot.
  durations bigint[],
  first_chunks bigint[],
  constraint usage_rollups_key unique nulls not distinct (project_id, scope, span, start, name, key_prefix)
) with (fillfactor = 80);
create index usage_rollups_tasks_by_cost on usage_rollups (project_id, start, cost_nanos desc) where scope = 'task' and span = 'month';

-- The slot of a histogram in which a duration is: exp(slot / 10) - 1 is within 5 % of it.
create function usage_slot(ms integer) returns bigint language sql immutable parallel safe
return round(ln(1 + ms::float8) * 10)::bigint;

create function usage_add_histograms(one bigint[], other bigint[]) returns bigint[] language sql immutable parallel safe
return (
  select array_agg(slot + 1024 * n)
    from (select element & 1023 as slot, sum(element >> 10)::bigint as n from unnest(one || other) as element group by 1) as counted
   where n <> 0
);

create aggregate usage_concat(bigint[]) (sfunc = array_cat, stype = bigint[]);

-- Moves increments to the rollups and returns their number. The caller holds the advisory lock 7263005.
create function merge_usage_increments(rows tid[]) returns integer language plpgsql set jit = off set work_mem = '64MB' as $$
declare
  merged integer;
begin
  with taken as (
    delete from usage_increments where ctid = any(rows) returning *
  ), spread as (
    select taken.*, spans.span, spans.span_start
      from taken
     cross join lateral (values
       ('quarter', date_bin('15 minutes', start, '2000-01-01T00:00:00Z')),
       ('day', date_trunc('day', start, 'UTC')),
       ('month', date_trunc('month', start, 'UTC'))
     ) as spans (span, span_start)
     where scope <> 'task' or span <> 'quarter'
  ), counted as (
    select project_id, scope, name, key_prefix, span, span_start, histogram, element & 1023 as slot, sum(element >> 10)::bigint as n
      from spread
     cross join lateral (
       select 'durations' as histogram, element from unnest(durations) as element
       union all
       select 'first_chunks', element from unnest(first_chunks) as element
     ) as elements
     group by 1, 2, 3, 4, 5, 6, 7, 8
  ), parts as (
    select project_id, scope, name, key_prefix, span, span_start, null::bigint[] as durations, null::bigint[] as first_chunks,
           sum(calls) as calls, sum(vendor_calls) as vendor_calls, sum(vendor_tokens) as vendor_tokens, sum(slots) as slots,
           sum(errors) as errors, sum(unpriced) as unpriced, sum(cost_nanos) as cost_nanos, sum(tokens_input) as tokens_input,
           sum(tokens_cached_input) as tokens_cached_input, sum(tokens_cache_write) as tokens_cache_write,
           sum(tokens_output) as tokens_output, sum(cache_hits) as cache_hits, sum(cache_lookups) as cache_lookups,
           sum(failovers) as failovers
      from spread group by 1, 2, 3, 4, 5, 6
    union all
    select project_id, scope, name, key_prefix, span, span_start,
           array_agg(slot + 1024 * n) filter (where histogram = 'durations'),
           array_agg(slot + 1024 * n) filter (where histogram = 'first_chunks'),
           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
      from counted where n <> 0 group by 1, 2, 3, 4, 5, 6
  ), upserted as (
    insert into usage_rollups as r (
      project_id, scope, name, key_prefix, span, start, durations, first_chunks,
      calls, vendor_calls, vendor_tokens, slots, errors, unpriced, cost_nanos, tokens_input, tokens_cached_input, tokens_cache_write,
      tokens_output, cache_hits, cache_lookups, failovers
    )
    select project_id, scope, name, key_prefix, span, span_start, max(durations), max(first_chunks),
           sum(calls), sum(vendor_calls), sum(vendor_tokens), sum(slots), sum(errors), sum(unpriced), sum(cost_nanos), sum(tokens_input),
           sum(tokens_cached_input), sum(tokens_cache_write), sum(tokens_output), sum(cache_hits), sum(cache_lookups), sum(failovers)
      from parts group by 1, 2, 3, 4, 5, 6
    on conflict (project_id, scope, span, start, name, key_prefix) do update
       set calls = r.calls + excluded.calls, vendor_calls = r.vendor_calls + excluded.vendor_calls,
           vendor_tokens = r.vendor_tokens + excluded.vendor_tokens, slots = r.slots + excluded.slots, errors = r.errors + excluded.errors,
           unpriced = r.unpriced + excluded.unpriced, cost_nanos = r.cost_nanos + excluded.cost_nanos,
           tokens_input = r.tokens_input + excluded.tokens_input,
           tokens_cached_input = r.tokens_cached_input + excluded.tokens_cached_input,
           tokens_cache_write = r.tokens_cache_write + excluded.tokens_cache_write, tokens_output = r.tokens_output + excluded.tokens_output,
           cache_hits = r.cache_hits + excluded.cache_hits, cache_lookups = r.cache_lookups + excluded.cache_lookups,
           failovers = r.failovers + excluded.failovers,
           durations = usage_add_histograms(r.durations, excluded.durations),
           first_chunks = usage_add_histograms(r.first_chunks, excluded.first_chunks)
  )
  select count(*) into merged from taken;
  return merged;
end
$$;

-- One text for all functions that count calls. Its first argument is what to count: call rows with sign (1, or -1 to remove, or 0 for
-- failovers alone) and failed_over; its second argument is the time to which calls are assigned.
do $migration$
declare
  count_calls constant text := $sql$
    insert into usage_increments (
      project_id, scope, name, key_prefix, start, calls, vendor_calls, vendor_tokens, slots, errors, unpriced, cost_nanos,
      tokens_input, tokens_cached_input, tokens_cache_write, tokens_output, cache_hits, cache_lookups, failovers, durations, first_chunks
    )
    select c.project_id, scopes.scope, scopes.name, scopes.key_prefix, c.start,
           sum(c.calls), sum(c.vendor_calls), sum(c.vendor_tokens), sum(c.slots), sum(c.errors), sum(c.unpriced), sum(c.cost_nanos),
           sum(c.tokens_input), sum(c.tokens_cached_input), sum(c.tokens_cache_write), sum(c.tokens_output), sum(c.cache_hits),
           sum(c.cache_lookups), sum(c.failovers),
           usage_concat(c.durations) filter (where scopes.scope <> 'task'),
           usage_concat(c.first_chunks) filter (where scopes.scope <> 'task')
      from (
        -- First by all attributes together: most batches have few combinations.
        select c.project_id, c.key_id, c.key_prefix, c.source, c.model, c.task_id, %2$s as start,
               sum(sign) as calls,
               coalesce(sum(sign) filter (where vendor_called), 0) as vendor_calls,
               coalesce(sum(sign * (tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output))
                          filter (where vendor_called), 0) as vendor_tokens,
               coalesce(sum(sign) filter (where vendor_called and takes_slot), 0) as slots,
               coalesce(sum(sign) filter (where outcome not in ('ok', 'client_left')), 0) as errors,
               coalesce(sum(sign) filter (where cost_nanos is null), 0) as unpriced,
               coalesce(sum(sign * cost_nanos), 0) as cost_nanos,
               sum(sign * tokens_input) as tokens_input, sum(sign * tokens_cached_input) as tokens_cached_input,
               sum(sign * (tokens_cache_write + tokens_cache_write_1h)) as tokens_cache_write, sum(sign * tokens_output) as tokens_output,
               coalesce(sum(sign) filter (where cache = 'hit'), 0) as cache_hits,
               coalesce(sum(sign) filter (where cache is not null), 0) as cache_lookups,
               sum(failed_over) as failovers,
               array_agg(usage_slot(duration_ms) + 1024 * sign) filter (where sign <> 0 and outcome = 'ok') as durations,
               array_agg(usage_slot(first_byte_ms) + 1024 * sign)
                 filter (where sign <> 0 and outcome = 'ok' and stream and first_byte_ms is not null) as first_chunks
          from (%1$s) as c
         group by 1, 2, 3, 4, 5, 6, 7
      ) as c
     cross join lateral (values
       ('project', null, null), ('key', c.key_id::text, c.key_prefix), ('source', c.source, null), ('model', c.model, null),
       ('task', c.task_id, null)
     ) as scopes (scope, name, key_prefix)
     group by 1, 2, 3, 4, 5;
  $sql$;
  minute constant text := $sql$date_trunc('minute', c.started_at, 'UTC')$sql$;
  quarter constant text := $sql$date_bin('15 minutes', c.started_at, '2000-01-01T00:00:00Z')$sql$;
  failed_over constant text := 'exists (select 1 from attempts second where second.call_id = %1$s.id and second.n = 2)::integer';
  is_counted constant text := '(%1$s.in_rollups or %1$s.id >= (select filled_from from usage_rollup_fill))';
  -- A call that the fill has not reached yet is counted by the fill, as it is then. The lock keeps the fill from doing so at the same time.
  await_fill constant text := $sql$
    if exists (select 1 from removed where not in_rollups) then perform pg_advisory_xact_lock_shared(7263006); end if;
  $sql$;
begin
  execute format(
    $sql$create function count_added_calls() returns trigger language plpgsql as $$ begin %s return null; end $$ $sql$,
    -- Attempts, from which failovers are counted, are stored after their calls.
    format(count_calls, 'select added.*, 1 as sign, 0 as failed_over from added', minute)
  );
  execute format(
    $sql$create function count_added_failovers() returns trigger language plpgsql as $$ begin
      if exists (select 1 from added where n = 2) then %s end if;
      return null;
    end $$ $sql$,
    format(count_calls, 'select calls.*, 0 as sign, 1 as failed_over from added join calls on calls.id = added.call_id where added.n = 2', minute)
  );
  execute format(
    $sql$create function count_removed_calls() returns trigger language plpgsql as $$ begin %s %s return null; end $$ $sql$,
    await_fill,
    format(
      count_calls,
      format('select removed.*, -1 as sign, -' || failed_over || ' as failed_over from removed where ' || is_counted, 'removed'),
      minute
    )
  );
  execute format(
    $sql$create function count_changed_calls() returns trigger language plpgsql as $$
    declare
      renamed record;
    begin
      %s %s
      -- The task of an erased call: its name must not stay in the rollups.
      for renamed in
        select removed.project_id, array_agg(distinct removed.task_id) as tasks from removed join added using (id)
         where removed.task_id is distinct from added.task_id and removed.task_id is not null
         group by removed.project_id order by removed.project_id
      loop
        perform pg_advisory_xact_lock(7263005);
        perform merge_usage_increments(array(
          select ctid from usage_increments
           where project_id = renamed.project_id and scope = 'task' and name = any(renamed.tasks)
        ));
        delete from usage_rollups
         where project_id = renamed.project_id and scope = 'task' and name = any(renamed.tasks) and calls = 0;
      end loop;
      return null;
    end $$ $sql$,
    await_fill,
    format(
      count_calls,
      format(
        'select changed.* from (
           select removed.*, -1 as sign, -' || failed_over || ' as failed_over from removed where ' || is_counted || '
           union all
           select added.*, 1 as sign, ' || replace(failed_over, '%1$s', 'added') || ' as failed_over from added where '
             || replace(is_counted, '%1$s', 'added') || '
         ) as changed
         where exists (
           select 1 from removed join added using (id)
            where id = changed.id
              and (removed.cost_nanos, removed.outcome, removed.model, removed.source, removed.task_id)
                  is distinct from (added.cost_nanos, added.outcome, added.model, added.source, added.task_id)
         )',
        'removed'
      ),
      minute
    )
  );
  execute format(
    -- Adds the next older calls of before this migration and returns their number.
    $sql$create function fill_usage_rollups(max_rows integer) returns integer language plpgsql set jit = off set work_mem = '64MB' as $$
    declare
      upper_id uuid;
      lower_id uuid;
      filled integer;
    begin
      perform pg_advisory_xact_lock(7263006);
      select filled_from into upper_id from usage_rollup_fill for update;
      select count(*), (array_agg(id order by id))[1] into filled, lower_id
        from (select id from calls where id < upper_id and not in_rollups order by id desc limit max_rows) as slice;
      if filled > 0 then %s end if;
      update usage_rollup_fill set filled_from = coalesce(lower_id, '00000000-0000-0000-0000-000000000000');
      return filled;
    end $$ $sql$,
    format(
      count_calls,
      format(
        'select calls.*, 1 as sign, ' || failed_over || ' as failed_over from calls
          where calls.id >= lower_id and calls.id < upper_id and not in_rollups',
        'calls'
      ),
      quarter
    )
  );
end
$migration$;

create trigger count_added_calls after insert on calls referencing new table as added for each statement execute function count_added_calls();
create trigger count_changed_calls after update on calls referencing old table as removed new table as added
  for each statement execute function count_changed_calls();
create trigger count_removed_calls after delete on calls referencing old table as removed
  for each statement execute function count_removed_calls();
create trigger count_added_failovers after insert on attempts referencing new table as added
  for each statement execute function count_added_failovers();
