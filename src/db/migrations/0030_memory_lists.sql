-- Lists of memories by id, newest first (src/memory/items/list-items.ts); rare ones have indexes of their own.
create index memory_items_by_project on memory_items (project_id, id desc);
create index memory_items_by_person on memory_items (project_id, id desc) where origin = 'person';
create index memory_items_left_out on memory_items (project_id, id desc) where state = 'live' and ratings_wrong - wrong_overruled >= 2;
