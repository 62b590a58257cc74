-- What an application of a project overrides: its ceilings and tiers. Applications exist without a row here; then nothing is overridden.

create table applications (
  project_id uuid not null references projects (id),
  source text not null,
  -- Shapes 19, validated by src/projects/application-settings.ts.
  settings jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, source)
);
