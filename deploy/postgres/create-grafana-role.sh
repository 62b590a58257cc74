#!/bin/bash
# Creates Grafana's role, or changes its password if it exists. The role can read sums of usage and the names of
# projects, but no calls, texts, keys or people. Compose runs this script as PostgreSQL's superuser, after the
# migrations, whenever you start the profile `observability`.
set -euo pipefail
: "${GRAFANA_DB_PASSWORD:?set GRAFANA_DB_PASSWORD in .env}"

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=gateway <<'SQL'
\getenv password GRAFANA_DB_PASSWORD
select 'create role grafana login' where not exists (select from pg_roles where rolname = 'grafana') \gexec
alter role grafana password :'password' connection limit 10;
alter role grafana set statement_timeout = '30s';
alter role grafana set default_transaction_read_only = on;
grant connect on database gateway to grafana;
grant select (id, slug, name) on projects to grafana;
grant select on usage_rollups, usage_increments to grafana;
SQL
