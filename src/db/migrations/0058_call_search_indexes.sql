-- concurrently
create index attempts_by_request on attempts (request_id) where request_id is not null;
create index calls_by_subject_latest on calls (project_id, subject_sha256, id desc) where subject_sha256 is not null;
