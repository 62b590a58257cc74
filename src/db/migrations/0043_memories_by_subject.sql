-- concurrently
-- Vectors of memories are compared one by one in all but large projects: without those of conversations, which are many more.
create index memory_passages_items_by_subject on memory_passages (project_id, subject, id) where item_id is not null;
