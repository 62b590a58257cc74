-- Content rules of a project, as shapes 19 sends them.
alter table projects add column rules jsonb not null default '[]';
