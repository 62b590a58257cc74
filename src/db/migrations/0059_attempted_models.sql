-- Aggregates of attempts also have the model of the attempt, as <provider>/<model>. It's null in the other scopes, in
-- hours that were summed up before, and in those that a process of an older version sums up.
alter table usage_cells add column attempted text;
