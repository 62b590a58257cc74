-- Accounts that an owner of a project created are valid in that project only, until a deployment admin or the identity provider confirms the
-- address. Several projects may have such an account for one address. `email` is unique, also for processes of an older version, so such a row
-- has a made-up value there and the address in `claimed_email`. Accounts from before this migration keep the address in `email` too, and with
-- it their password.
alter table people add column project_id uuid references projects (id) on delete cascade;
alter table people add column claimed_email text;
alter table people add check ((project_id is null) = (claimed_email is null));
create unique index people_by_project on people (project_id, claimed_email) where project_id is not null;
create index people_by_claimed_email on people (claimed_email) where claimed_email is not null;

update people person set project_id = added.project_id, claimed_email = person.email
  from (select distinct on (detail ->> 'person_id') detail ->> 'person_id' as person_id, log.project_id
          from audit_log log
          join projects on projects.id = log.project_id
          left join people actor on actor.id = log.person_id
         where action = 'member.add' and outcome = 'ok' and detail ->> 'created' = 'true' and actor.is_admin is not true
         order by detail ->> 'person_id', log.id) added
 where person.id::text = added.person_id and not person.is_admin and person.oidc_issuer is null;

-- In the other projects of such a person, an account of that project takes their place.
with others as (
  select members.project_id, members.person_id, gen_random_uuid() as id, person.claimed_email, person.name, members.created_at
    from members join people person on person.id = members.person_id
   where person.project_id <> members.project_id
), created as (
  insert into people (id, email, name, is_admin, created_at, project_id, claimed_email)
  select id, id || ':' || claimed_email, name, false, created_at, project_id, claimed_email from others
)
update members set person_id = others.id from others
 where members.project_id = others.project_id and members.person_id = others.person_id;
