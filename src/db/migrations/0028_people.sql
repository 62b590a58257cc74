-- People who sign in to the console and MCP, their roles, sessions and one-time links; who made a change, and its outcome, in the audit log.

create table people (
  id uuid primary key,
  email text not null unique check (email = lower(email)),
  name text not null,
  -- argon2id as a PHC string; null for a person who signs in with links or OpenID Connect only
  password_hash text,
  is_admin boolean not null,
  -- The account at the identity provider (`iss` and `sub`), stored at the first sign-in with it.
  oidc_issuer text,
  oidc_sub text,
  disabled_at timestamptz,
  created_at timestamptz not null,
  unique (oidc_issuer, oidc_sub),
  check ((oidc_issuer is null) = (oidc_sub is null))
);

create table members (
  project_id uuid not null references projects (id) on delete cascade,
  person_id uuid not null references people (id) on delete cascade,
  role text not null check (role in ('owner', 'member')),
  created_at timestamptz not null,
  primary key (project_id, person_id)
);
create index members_by_person on members (person_id);

create table sessions (
  id uuid primary key,
  secret_sha256 bytea not null unique,
  person_id uuid not null references people (id) on delete cascade,
  user_agent text,
  created_at timestamptz not null,
  -- Written at most once a minute.
  last_seen_at timestamptz not null,
  expires_at timestamptz not null
);
create index sessions_by_person on sessions (person_id);

-- A used link is deleted. Without a person: whoever uses it creates an account, a deployment admin's.
create table sign_in_links (
  secret_sha256 bytea primary key,
  person_id uuid references people (id) on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index sign_in_links_by_person on sign_in_links (person_id);

-- Failed sign-ins per account and per address in the current window. The key is a hash of either.
create table sign_in_failures (
  key_sha256 bytea primary key,
  failures integer not null,
  window_ends_at timestamptz not null
);

-- No foreign keys: the log remains when a person is deleted. `outcome` is null from before the change until after it.
alter table audit_log add column person_id uuid;
alter table audit_log add column project_id uuid;
alter table audit_log add column target text;
alter table audit_log add column outcome text;
update audit_log set outcome = 'ok', project_id = (detail ->> 'project_id')::uuid;
alter table audit_log add check (outcome in ('ok', 'refused', 'failed'));
create index audit_log_by_project on audit_log (project_id, id) where project_id is not null;
create index audit_log_by_person on audit_log (person_id, id) where person_id is not null;
