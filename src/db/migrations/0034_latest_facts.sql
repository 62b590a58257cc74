-- concurrently
-- The newest facts of a project (src/memory/search/graph.ts).
create index memory_facts_latest on memory_facts (project_id, created_at desc, id desc);
