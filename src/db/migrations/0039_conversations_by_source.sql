-- concurrently
-- The latest conversations of an application (src/memory/conversations/list-conversations.ts).
create index conversations_by_source on conversations (project_id, source, last_turn_at desc, id desc);
