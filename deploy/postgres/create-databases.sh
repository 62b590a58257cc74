#!/bin/bash
# Creates a role for the gateway and one for Temporal, together with their databases. Neither role is a superuser, and
# neither can connect to the other's databases. PostgreSQL runs this script as its superuser once, when it creates its
# data directory. Only a superuser can create the extension `vector`, so we do that here, before `gateway migrate` needs
# it.
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
