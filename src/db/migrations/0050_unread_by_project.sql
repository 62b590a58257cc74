-- concurrently
-- Conversations that wait to become idle, by project (src/memory/conversations/read-idle.ts).
create index conversations_unread_by_project on conversations (project_id, last_turn_at) where state = 'stored';
