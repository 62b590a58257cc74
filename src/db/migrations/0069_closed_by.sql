-- Who closed a memory: `person:<id>`, `key:<prefix>` or `gateway-memory`. Null if nobody knows any more. The next migration fills it for
-- older memories, so that this one holds its lock only for a moment.
alter table memory_items add column closed_by text;
create index memory_votes_by_call on memory_votes (project_id, call_id) where call_id is not null;
