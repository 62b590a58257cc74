-- What keys think of memories that recall used (src/memory/items/votes.ts). A key has one vote per memory. `subject` is the end user of the
-- call, and null if the rating didn't name a call.
create table memory_votes (
  project_id uuid not null references projects (id),
  item_id uuid not null references memory_items (id) on delete cascade,
  voter text not null,
  subject text,
  useful boolean not null,
  call_id uuid,
  voted_at timestamptz not null,
  primary key (item_id, voter)
);
create index memory_votes_by_subject on memory_votes (project_id, subject);
