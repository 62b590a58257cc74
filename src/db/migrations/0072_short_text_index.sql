-- concurrently
-- Seven bytes of the hash are enough to find the parts with a text, and take half the space.
create index parts_by_text_start on parts (project_id, substr(text_hash, 1, 7)) where text_hash is not null;
