-- The audit log has the removals that people made before memories had `closed_by`.
update memory_items item set closed_by = 'person:' || removal.person_id
  from (
    select distinct on (item_id) item_id, person_id
      from (
        select id, person_id, case when target ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then target::uuid end as item_id
          from audit_log where action = 'memory_item.remove' and outcome = 'ok' and person_id is not null
      ) as removed
     where item_id is not null
     order by item_id, id desc
  ) as removal
 where item.id = removal.item_id and item.state = 'closed' and item.closed_by is null;
