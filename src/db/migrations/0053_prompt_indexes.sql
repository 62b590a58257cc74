-- concurrently
create index parts_by_text on parts (project_id, text_hash) where text_hash is not null;
create index call_texts_by_context on call_texts (project_id, context_hash) where context_hash is not null;
create index call_texts_by_extras on call_texts (project_id, extras_hash) where extras_hash is not null;
create index call_texts_to_convert on call_texts (call_id) where not shares_texts;
