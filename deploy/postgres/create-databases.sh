#!/bin/bash
# Runs once, when PostgreSQL creates its data directory, as its superuser. Creates one role and its databases for the gateway and for
# Temporal. Neither is a superuser, and neither can connect to the databases of the other. The extension is created here because that
# needs a superuser; `gateway migrate` then finds it.
set -euo pipefail
: "${GATEWAY_DB_PASSWORD:?}" "${TEMPORAL_DB_PASSWORD:?}"

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
\getenv gateway_password GATEWAY_DB_PASSWORD
\getenv temporal_password TEMPORAL_DB_PASSWORD
create role gateway login password :'gateway_password';
create role temporal login password :'temporal_password';
create database gateway owner gateway;
create database temporal owner temporal;
create database temporal_visibility owner temporal;
revoke all on database gateway, temporal, temporal_visibility from public;
\connect gateway
create extension vector;
SQL
