-- A key that was rotated is counted on under the id of the first key of its line, so that a new secret is no new ceiling. Null: under its own.
alter table virtual_keys add column counted_as uuid references virtual_keys (id);
create index virtual_keys_counted_as on virtual_keys (counted_as) where counted_as is not null;
