-- Erasures of subjects: the fence that keeps what was sent before from coming back, and how far each erasure is.

create table erasures (
  id uuid primary key,
  project_id uuid not null references projects (id),
  subject_sha256 bytea not null,
  -- The fence, in the database's time: calls of the subject that began until then are stored without text.
  erased_at timestamptz not null,
  -- key:<prefix>, or the person.
  asked_by text not null,
  -- queued: its workflow has not looked yet; waiting: for processes or for runs to be deleted; done: nothing is left.
  state text not null default 'queued' check (state in ('queued', 'waiting', 'done')),
  -- What its transaction deleted, by the names of the receipt (shapes 7).
  deleted jsonb not null,
  -- Calls that came to the database later and were stored without text.
  discarded bigint not null default 0,
  -- Closed workflow runs that are deleted from Temporal.
  purged bigint not null default 0,
  done_at timestamptz
);
create index erasures_by_subject on erasures (project_id, subject_sha256, erased_at desc);
create index erasures_by_project on erasures (project_id, id desc);
create index erasures_open on erasures (id) where state <> 'done';

-- What each process has done for an erasure.
create table erasure_processes (
  erasure_id uuid not null references erasures (id) on delete cascade,
  -- Id of its journal.
  process uuid not null,
  cache_entries integer not null,
  -- Calls of the subject under way, which go on without text.
  open_calls integer not null,
  -- Set when nothing in its journal is older than the fence.
  drained_at timestamptz,
  primary key (erasure_id, process)
);

-- Workflow ids that concern the subject and whose runs are still to be deleted from Temporal.
create table erasure_runs (
  erasure_id uuid not null references erasures (id) on delete cascade,
  workflow_id text not null,
  primary key (erasure_id, workflow_id)
);

create index calls_by_subject on calls (project_id, subject_sha256) where subject_sha256 is not null;
