-- Conversations that memory has not learned from now stay past the deletion period while memory is off, too. Projects whose memory is off
-- go on deleting them as before, by the setting that says so.
update memory_settings set settings = settings || '{"delete_unlearned": true}'
 where settings ->> 'enabled' = 'false' and settings ->> 'delete_conversations_after_days' is not null;
