-- The ground: projects and keys, calls with their attempts, prompts as chained parts, conversations, the outbox.

create extension if not exists vector;

create table projects (
  id uuid primary key,
  slug text not null unique,
  name text not null,
  -- Routing and money settings of shapes 19, validated by src/projects/project-settings.ts.
  settings jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table virtual_keys (
  id uuid primary key,
  project_id uuid not null references projects (id),
  prefix text not null unique,
  secret_sha256 bytea not null,
  name text not null,
  models text[],
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null default now()
);
create index virtual_keys_by_project on virtual_keys (project_id);

-- Apart from virtual_keys, so that "key unreadable" and "limits unreadable" can be told apart (decisions 7).
create table key_ceilings (
  key_id uuid not null references virtual_keys (id),
  ceiling text not null check (ceiling in ('calls', 'cost', 'rpm', 'tpm')),
  -- calls, tokens or nano-dollars
  limit_value bigint not null,
  window_kind text not null check (window_kind in ('minute', 'day', 'month', 'total')),
  primary key (key_id, ceiling)
);

-- Partitioned by the time inside the UUIDv7 id; partitions are made by the drain, the default one catches the rest.
create table calls (
  id uuid not null,
  project_id uuid not null,
  key_id uuid not null,
  key_prefix text not null,
  source text not null,
  route text not null,
  model_asked text not null,
  model text,
  stream boolean not null,
  status integer not null,
  code text,
  outcome text not null,
  cache text,
  tokens_input bigint not null,
  tokens_cached_input bigint not null,
  tokens_cache_write bigint not null,
  tokens_cache_write_1h bigint not null,
  tokens_output bigint not null,
  cost_nanos bigint,
  estimated boolean not null,
  duration_ms integer not null,
  first_byte_ms integer,
  task_id text,
  turn_id text,
  agent_id text,
  trigger_kind text,
  trigger_detail text,
  iteration bigint,
  distil_saved bigint,
  subject_sha256 bytea,
  plan jsonb not null,
  started_at timestamptz not null,
  primary key (id)
) partition by range (id);
create table calls_default partition of calls default;
create index calls_by_project on calls (project_id, id desc);
create index calls_by_key on calls (key_id, id desc);

create table attempts (
  call_id uuid not null,
  n integer not null,
  provider text not null,
  model text not null,
  status integer,
  outcome text not null,
  wait_ms integer not null,
  started_at timestamptz not null,
  first_byte_ms integer,
  duration_ms integer not null,
  tokens_input bigint not null,
  tokens_cached_input bigint not null,
  tokens_cache_write bigint not null,
  tokens_cache_write_1h bigint not null,
  tokens_output bigint not null,
  cost_nanos bigint,
  primary key (call_id, n)
) partition by range (call_id);
create table attempts_default partition of attempts default;

-- One message, stored once per project under the hash of itself and all before it. A part is there as long as a call refers to it or
-- to a part behind it; whoever deletes parts begins at the ends of chains and holds the project's lock alone.
create table parts (
  project_id uuid not null references projects (id),
  hash bytea not null,
  parent_hash bytea,
  role text not null check (role in ('user', 'assistant')),
  -- {"text": "...", "tool_calls": [{"name", "arguments"}]}: the normal form (decisions 9)
  content jsonb not null,
  created_at timestamptz not null,
  primary key (project_id, hash)
);
create index parts_by_parent on parts (project_id, parent_hash) where parent_hash is not null;

create table conversations (
  id uuid primary key,
  project_id uuid not null references projects (id),
  source text not null,
  subject text,
  state text not null check (state in ('stored', 'read')),
  -- How often it was opened: 1, and one more for each reopening of a read conversation.
  opened integer not null default 1,
  learnable boolean not null default false,
  title text,
  -- What the memory worker read last; null until read.
  text text,
  -- Recorded calls (for learning a turn is one of them), and messages: positions of conversation_parts run from 0 to messages - 1.
  calls integer not null,
  messages integer not null,
  -- Its last part and its last message, hashed with project, source and subject: src/memory/chain.ts keyInScope.
  tip_key bytea not null,
  tip_message_key bytea not null,
  started_at timestamptz not null,
  last_turn_at timestamptz not null,
  read_at timestamptz
);
create index conversations_by_project on conversations (project_id, last_turn_at desc);
create index conversations_by_subject on conversations (project_id, subject, source, last_turn_at desc) where subject is not null;
create index conversations_open_by_subject on conversations (project_id, subject, source, last_turn_at desc, id desc)
  where subject is not null and state = 'stored';
create index conversations_unread on conversations (last_turn_at) where state = 'stored';
create index conversations_by_tip on conversations (tip_key, state desc, last_turn_at desc, id desc);
create index conversations_by_tip_message on conversations (tip_message_key, last_turn_at desc, id desc);

-- The messages of a conversation: position 0 is its first. Runs of parts that begin chains of their own may follow each other (a subject
-- that began anew, a client that dropped old messages).
create table conversation_parts (
  conversation_id uuid not null references conversations (id) on delete cascade,
  position integer not null,
  part_hash bytea not null,
  -- The part hashed with project, source and subject, and the message alone.
  place_key bytea not null,
  message_hash bytea not null,
  -- The recorded call that gave this answer; null for what came with a request.
  call_id uuid,
  created_at timestamptz not null,
  primary key (conversation_id, position)
);
-- Descending puts places that no recorded call has answered first: those wait for a late call.
create index conversation_parts_by_place on conversation_parts (place_key, call_id desc);

-- The stored prompt and answer of a call: the chain that ends in last_hash, whose last part is the answer when there is one.
create table call_texts (
  call_id uuid primary key,
  project_id uuid not null references projects (id),
  conversation_id uuid references conversations (id) on delete set null,
  subject text,
  -- System prompts, tool results, and what else is no message; binary content as type, bytes and SHA-256 (src/dialects/prompt.ts Extra).
  extras jsonb not null default '[]',
  last_hash bytea,
  answered boolean not null,
  created_at timestamptz not null
);
create index call_texts_by_subject on call_texts (project_id, subject) where subject is not null;
create index call_texts_by_conversation on call_texts (conversation_id) where conversation_id is not null;
create index call_texts_by_last_part on call_texts (project_id, last_hash) where last_hash is not null;

create table outbox (
  id bigint generated always as identity primary key,
  workflow text not null,
  workflow_id text not null,
  input jsonb not null,
  attempts integer not null default 0,
  next_try_at timestamptz not null default now(),
  created_at timestamptz not null default now()
);
create index outbox_due on outbox (next_try_at, id);
-- Rows of one workflow are delivered in order.
create index outbox_by_workflow on outbox (workflow_id, id);
