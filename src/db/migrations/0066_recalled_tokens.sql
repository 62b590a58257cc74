-- How many tokens recall added to the prompt, estimated. Null if nothing was recalled, or if an older version stored the call.
alter table call_texts add column recalled_tokens integer;
