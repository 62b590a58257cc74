/**
 * Builds the search statement, which merges candidates from the text and vector indexes and ranks them once
 * (docs/architecture/memory.md).
 *
 * Its parameters are the project, subject, query, limit, minimum score, kinds, and the starts and ends of the times
 * that the query mentions. If there's a vector, the vector and its model follow.
 */
import { inRecallSql, itemColumns } from '../records/item-record.ts';
import { type CandidateVariant, candidatesSql } from './candidates.ts';
import { neighbourScoreSql, neighboursSql, relevanceSql, toScoreSql, voteSql, whenNamedSql } from './ranking.ts';

export interface SearchVariant extends CandidateVariant {
  readonly recalledOnly: boolean;
}

export function searchStatement({ recalledOnly, ...variant }: SearchVariant): string {
  const { of, dims } = variant;
  return `with ${candidatesSql(variant)}, ${relevanceSql(of, dims)}
  ${of === 'memories' ? memoriesSql(recalledOnly) : episodesSql}`;
}

function memoriesSql(recalledOnly: boolean): string {
  return `
  , found as materialized (
    select passage.item_id, passage.cosine, passage.is_near, passage.terms, passage.maximum, item.conversation_id, item.created_at,
           coalesce(item.subject = $2::text, false) as is_own,
           named.relevance as time, passage.relevance + named.relevance as relevance, ${voteSql} as votes
      from relevant passage
      join memory_items item on item.id = passage.item_id and item.state = 'live'
      cross join lateral (select ${whenNamedSql('item.created_at', 'item.created_at')} as relevance) named
     where passage.relevance > 0 ${recalledOnly ? `and ${inRecallSql}` : ''}
  ),
  ranked as (
    select found.*, ${neighbourScoreSql} as neighbours,
           ${toScoreSql(`found.relevance + ${neighbourScoreSql}`, 'found.maximum')} * (1 + found.votes) as score
      from found
    window ${neighboursSql}
  ),
  best as (
    select * from ranked where score >= $5::float8 order by score desc, is_own desc, created_at desc, item_id desc limit $4::integer
  )
  select ${itemColumns}, least(1, best.score) as score, best.is_near as "isNear", best.cosine as similarity, best.terms,
         ${toScoreSql('best.time', 'best.maximum')} as time, ${toScoreSql('best.neighbours', 'best.maximum')} as neighbours,
         best.score * best.votes / (1 + best.votes) as ratings
    from best
    join memory_items item on item.id = best.item_id
   order by best.score desc, best.is_own desc, item.created_at desc, item.id desc`;
}

/** A conversation is ranked by its best passage, which is also the one that the result shows. */
const episodesSql = `
  , best as (select distinct on (conversation_id) * from relevant where relevance > 0 order by conversation_id, relevance desc),
  ranked as (
    select conversation.id, conversation.title, conversation.subject, best.text, conversation.started_at, conversation.last_turn_at,
           ${toScoreSql(`best.relevance + ${whenNamedSql('conversation.started_at', 'conversation.last_turn_at')}`, 'best.maximum')} as score
      from best
      join conversations conversation on conversation.id = best.conversation_id
  )
  select id, title, subject, text, least(1, score) as score, started_at as "startedAt", last_turn_at as "lastTurnAt"
    from ranked
   where score >= $5::float8
   order by ranked.score desc, last_turn_at desc, id desc
   limit $4::integer`;
