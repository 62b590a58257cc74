-- The tags that providers need to get calls of the project or key. Processes of an older version ignore the columns.
alter table projects add column required_tags text[] not null default '{}';
alter table virtual_keys add column required_tags text[] not null default '{}';
