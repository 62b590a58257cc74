-- Learning: what waits to be read by the memory model, and the batches that read it.

-- Messages 0 to batched_messages - 1 have been put into a batch. The rest of a learnable conversation that is read waits for one.
alter table conversations add column batched_messages integer not null default 0;
create index conversations_waiting on conversations (project_id, id)
  where state = 'read' and learnable and batched_messages < messages;

-- Nothing private: that is in the groups, which have a subject.
create table memory_batches (
  id uuid primary key,
  project_id uuid not null references projects (id),
  kind text not null check (kind in ('normal', 'remember')),
  conversation_id uuid references conversations (id) on delete set null,
  state text not null default 'running' check (state in ('running', 'done', 'failed')),
  created_at timestamptz not null default now(),
  finished_at timestamptz
);
create index memory_batches_by_project on memory_batches (project_id, id desc);
create index memory_batches_running on memory_batches (project_id, kind) where state = 'running';
create index memory_batches_by_conversation on memory_batches (conversation_id) where conversation_id is not null;

-- One end user's part of a batch, or that of calls without one. Each commits by itself.
create table memory_batch_groups (
  batch_id uuid not null references memory_batches (id) on delete cascade,
  position integer not null,
  project_id uuid not null references projects (id),
  subject text,
  -- What the caller of remember wants looked for.
  focus text,
  messages integer not null,
  -- waiting -> learned (its memories are stored) -> done; failed: parked until somebody replays it.
  state text not null default 'waiting' check (state in ('waiting', 'learned', 'done', 'failed')),
  -- Model calls begun, failures in a row, and how many of these were answers of no use.
  attempts integer not null default 0,
  failures integer not null default 0,
  unusable integer not null default 0,
  next_try_at timestamptz,
  -- Code of the last failure and its sentence, which may hold a vendor's words.
  error text,
  error_message text,
  call_ids uuid[] not null default '{}',
  written integer not null default 0,
  repeated integer not null default 0,
  dropped integer not null default 0,
  merged integer not null default 0,
  facts integer not null default 0,
  learned_at timestamptz,
  primary key (batch_id, position)
);
create index memory_batch_groups_by_subject on memory_batch_groups (project_id, subject) where subject is not null;

-- Which messages a group reads: positions from_position to to_position - 1 of the conversation.
create table memory_batch_ranges (
  batch_id uuid not null,
  group_position integer not null,
  conversation_id uuid not null references conversations (id) on delete cascade,
  from_position integer not null,
  to_position integer not null,
  primary key (batch_id, group_position, conversation_id),
  foreign key (batch_id, group_position) references memory_batch_groups (batch_id, position) on delete cascade
);
create index memory_batch_ranges_by_conversation on memory_batch_ranges (conversation_id);

-- Finds a live memory that says the same word for word (src/memory/learning/repeats.ts).
create index memory_items_by_words on memory_items (project_id, md5(lower(regexp_replace(btrim(text, E' \t\n\r.'), '\s+', ' ', 'g'))))
  where state = 'live';
