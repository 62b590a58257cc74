-- What a person has overruled (Confirm) no longer counts against a memory; what a person wrote is trusted as it is.
drop index memory_items_trusted;
create index memory_items_trusted on memory_items (project_id, created_at desc)
  where state = 'live' and (origin = 'person' or (ratings_useful > 0 and ratings_wrong <= wrong_overruled));
