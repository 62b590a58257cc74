-- concurrently
-- Lets the daily cleanup find the facts that have ended before the deletion period of their project.
create index memory_facts_ended on memory_facts (project_id, valid_to) where valid_to is not null;
