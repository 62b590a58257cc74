-- Prompts of calls that belong to no conversation go by their own age (src/memory/expire.ts).
create index call_texts_loose on call_texts (project_id, created_at) where conversation_id is null;
