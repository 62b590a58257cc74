-- Which processes live: each writes its row every few seconds (src/journal/presence.ts).

create table processes (
  -- The name of its journal.
  id uuid primary key,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  -- The newest erasure whose fence this process keeps.
  last_erasure uuid
);
