-- A shorter deletion period that has been asked for and is not in effect yet; `memory_settings.settings` keeps the longer one until then,
-- which processes of an older version use.
alter table memory_settings add column pending_deletion jsonb;
