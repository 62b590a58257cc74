-- The name of an operation ends with its id. `models/a/operations/1` and `operations/1` are the same operation.
create index videos_by_operation_id on videos (regexp_replace(operation, '^.*/', ''));
drop index videos_by_operation;
