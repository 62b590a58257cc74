-- The memory items that recall put into the prompt of a call; their text is not stored with it.
alter table call_texts add column recalled_items uuid[] not null default '{}';
