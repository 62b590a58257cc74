-- Videos: a row for each operation that a vendor has accepted, until it is known what became of it. No prompt and no words of a vendor.

create table videos (
  -- The call that started it.
  call_id uuid primary key,
  project_id uuid not null references projects (id),
  provider text not null,
  model text not null,
  -- The vendor's name of the operation.
  operation text not null,
  -- running: not known yet; unknown: given up after days.
  state text not null check (state in ('running', 'done', 'failed', 'unknown')),
  -- Where the files are, as the vendor wrote it, and what the addresses of each have in common (src/vendors/video-address.ts fileKeyOf).
  uris text[] not null default '{}',
  file_keys text[] not null default '{}',
  -- The vendor's class of the failure, such as INVALID_ARGUMENT.
  failure text,
  -- What the cost is made of: nano-dollars of a second (null: the price is unknown), length of one video, number of videos.
  second_nanos bigint,
  duration_ms integer not null,
  samples integer not null,
  cost_nanos bigint,
  started_at timestamptz not null,
  -- When the vendor was asked last.
  polled_at timestamptz,
  settled_at timestamptz
);
create index videos_by_operation on videos (operation, started_at desc);
create index videos_by_file on videos using gin (file_keys);
create index videos_running on videos (call_id) where state = 'running';
