-- Memories and conversations each have an index of their lexemes now, so writers needn't maintain one of all passages. During a rolling deployment,
-- processes of the previous version search memories with the same index as before, but read more rows to search conversations.
drop index memory_passages_lexemes;
-- As counted daily: the project's memories, and the memories and passages that belong to the whole project.
alter table memory_embeddings add column memories integer not null default 0;
alter table memory_embeddings add column shared_memories integer not null default 0;
alter table memory_embeddings add column shared_passages integer not null default 0;
