-- The circuit breakers of each process that are not closed (src/routing/shared-breakers.ts). A row counts while its process sends heartbeats.
create table provider_breakers (
  project_id uuid not null,
  provider text not null,
  process uuid not null,
  state text not null,
  failures integer not null,
  opened_at timestamptz not null,
  retry_at timestamptz not null,
  primary key (project_id, provider, process)
);
