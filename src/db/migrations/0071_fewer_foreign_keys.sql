-- We never delete projects, and call_texts still checks that the project exists. Checking it again for each part and passage took
-- nearly half of the time of an insert.
alter table parts drop constraint parts_project_id_fkey;
alter table memory_passages drop constraint memory_passages_project_id_fkey;
