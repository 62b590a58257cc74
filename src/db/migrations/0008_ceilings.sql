-- Ceilings: what was used of each in its window, and which process holds slices of it (src/ceilings). On the call rows: whether a slot was
-- used, and whether the ceilings were looked at.

alter table calls add column vendor_called boolean not null default true;
alter table calls add column unmetered boolean not null default false;
update calls set vendor_called = false where cache = 'hit';

-- One row per ceiling and window. settled is the sum over the window's call rows from its first moment on; settled + leased never passes
-- the ceiling but by what calls cost beyond what was reserved for them.
create table limit_counters (
  id bigint generated always as identity primary key,
  project_id uuid not null,
  holder text not null check (holder in ('key', 'source', 'project')),
  -- Key id, name of the application, or empty for the project itself.
  holder_id text not null,
  ceiling text not null check (ceiling in ('calls', 'cost', 'rpm', 'tpm')),
  window_kind text not null check (window_kind in ('minute', 'day', 'month', 'total')),
  window_start timestamptz not null,
  -- Null: it never ends.
  window_end timestamptz,
  -- Calls, tokens or nano-dollars.
  settled bigint not null,
  -- The sum of its leases' amounts.
  leased bigint not null default 0,
  unique (project_id, holder, holder_id, ceiling, window_kind, window_start)
);
create index limit_counters_ended on limit_counters (window_end) where window_kind in ('minute', 'day');

-- What a process may admit without asking; changed only by who holds the counter's row.
create table limit_leases (
  counter_id bigint not null references limit_counters (id) on delete cascade,
  -- Id of its journal.
  process uuid not null,
  amount bigint not null,
  -- What its running calls hold of it, as it said last.
  reserved bigint not null default 0,
  primary key (counter_id, process)
);
create index limit_leases_by_process on limit_leases (process);
