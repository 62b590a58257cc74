-- Both are null for existing keys: the project decides what happens in an outage, and no limit of the output is added to calls.
alter table virtual_keys
  add column on_budget_store_down text check (on_budget_store_down in ('allow', 'refuse')),
  add column default_max_output_tokens integer check (default_max_output_tokens > 0);
