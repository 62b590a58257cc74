/**
 * The search statement: candidates from the text and vector indexes, fused and ranked once (docs/architecture/memory.md).
 *
 * Text. Uses the 8 rarest query terms that are not stopwords. Each contributes at most 100 passages, so a frequent term cannot crowd out a
 * rare one; the best 200 are ranked. A term counts by its rarity, a stem match slightly less; the score is the matched share of the query.
 *
 * Vectors. The 100 nearest passages by cosine among those of the query's model. For a small project or subject the planner sorts its
 * passages; for a large one it uses the index of the dimension, whose expression and condition equal those of the statement.
 *
 * Fusion. Unrelated texts have a cosine of 0.1 with some models and 0.7 with others, so cosines are rescaled from the least of the 100
 * nearest. Text counts `textWeight` of the vector score; `npm run measure-search` measures the result.
 */
import { inRecallSql, itemColumns } from '../records/item-record.ts';
import { inScope } from '../text/subject-scope.ts';

/** Weight of the text score relative to the vector score. */
const textWeight = 0.35;
/** For a passage without an embedding, half its text score substitutes for the vector score. */
const unembeddedTextWeight = 0.5;
const stemWeight = 0.85;
const maxTerms = 8;
const maxPassagesPerTerm = 100;
const maxTextCandidates = 200;
const maxVectorCandidates = 100;

export interface SearchVariant {
  readonly of: 'memories' | 'episodes';
  /** Dimensions of the query vector; null searches by text only. An internal number: part of the statement, as the index requires. */
  readonly dims: number | null;
  /** Excludes memories that are not recalled. */
  readonly recalledOnly: boolean;
}

/** Parameters: project, subject, query, limit, minimum score, kinds; with a vector also the vector and its model. */
export function searchStatement({ of, dims, recalledOnly }: SearchVariant): string {
  const owner = `passage.${of === 'memories' ? 'item_id' : 'conversation_id'}`;
  const filter = `passage.project_id = $1::uuid and ${inScope('passage.subject', '$2')}
    and ($6::text[] is null or passage.kind = any($6::text[]))`;
  // No index serves the condition of the text candidates: for `is not null` PostgreSQL would read all entries of an index of the conversations
  // for each term.
  const [textFilter, vectorFilter] = [`${filter} and num_nonnulls(${owner}) = 1`, `${filter} and ${owner} is not null`];
  return `with ${queryTermsSql}, ${textCandidatesSql(textFilter)}, ${vectorCandidatesSql(vectorFilter, dims)}, ${scoredSql(dims)}, ${fusedSql(dims)}
  ${of === 'memories' ? memoriesSql(recalledOnly) : episodesSql}`;
}

const queryTermsSql = `
  tokens as (
    select token.lexeme as term, plainto_tsquery('simple', token.lexeme) as exact, plainto_tsquery('english', token.lexeme) as stem,
           coalesce((select max(stat.passages) from memory_words stat
                      where stat.project_id = $1::uuid
                        and stat.word = any(token.lexeme || tsvector_to_array(to_tsvector('english', token.lexeme)))), 0) as passages
      from unnest(to_tsvector('simple', $3::text)) as token
  ),
  total as (select coalesce((select passages from memory_embeddings where project_id = $1::uuid), 0) as passages),
  terms as (
    select token.exact, token.stem, token.passages,
           ln(1 + (total.passages + 1)::float8 / (token.passages + 1)) as weight,
           row_number() over (order by token.passages, length(token.term) desc, token.term) as rank
      from tokens token, total
     -- A token without an English stem is a stopword.
     where numnode(token.stem) > 0 or not exists (select 1 from tokens other where numnode(other.stem) > 0)
     order by rank
     limit ${maxTerms}
  )`;

/** A term in more than a tenth of the passages yields candidates only when no rarer term exists; it still counts in the ranking. */
function textCandidatesSql(filter: string): string {
  return `
  by_text as materialized (
    select match.id
      from terms term
      cross join total
      cross join lateral (
        select passage.id from memory_passages passage
         where passage.lexemes @@ (term.exact || term.stem) and ${filter}
         limit ${maxPassagesPerTerm}
      ) match
     where term.rank = 1 or term.passages * 10 <= total.passages
     group by match.id
     order by sum(term.weight) desc, match.id desc
     limit ${maxTextCandidates}
  )`;
}

function vectorCandidatesSql(filter: string, dims: number | null): string {
  if (dims === null) return `by_vector as (select null::bigint as id where false)`;
  return `
  by_vector as materialized (
    select passage.id
      from memory_passages passage
     where passage.embedding_dims = ${dims} and passage.embedding_model = $8::text and ${filter}
     order by passage.embedding::halfvec(${dims}) <=> $7::halfvec(${dims})
     limit ${maxVectorCandidates}
  )`;
}

function scoredSql(dims: number | null): string {
  const isOfModel = `passage.embedding_dims = ${dims} and passage.embedding_model = $8::text`;
  const cosine =
    dims === null
      ? `null::float8`
      : `case when ${isOfModel} then greatest(0, 1 - (passage.embedding::halfvec(${dims}) <=> $7::halfvec(${dims}))) end`;
  return `
  candidates as (
    select id, bool_or(is_near) as is_near
      from (select id, false as is_near from by_text union all select id, true from by_vector) as matches
     group by id
  ),
  scored as materialized (
    select passage.item_id, passage.conversation_id, passage.text, candidate.is_near, ${cosine} as cosine, coalesce(match.score, 0) as text_score
      from candidates candidate
      join memory_passages passage on passage.id = candidate.id
      cross join lateral (
        select sum(term.weight * case when passage.lexemes @@ term.exact then 1
                                      when passage.lexemes @@ term.stem then ${stemWeight}
                                      else 0 end) / sum(term.weight) as score
          from terms term
      ) match
  )`;
}

function fusedSql(dims: number | null): string {
  if (dims === null) return `fused as (select *, text_score as score from scored)`;
  return `
  background as (
    -- With few passages the least near one says little about unrelated texts.
    select least(0.99, coalesce(min(cosine), 0) * least(1, count(*) / ${maxVectorCandidates}.0)) as level from scored where is_near
  ),
  fused as (
    select scored.*, least(1, (case when cosine is null then ${unembeddedTextWeight} * text_score else greatest(0, cosine - level) / (1 - level) end
                               + ${textWeight} * text_score) / ${1 + textWeight}) as score
      from scored, background
  )`;
}

function memoriesSql(recalledOnly: boolean): string {
  return `
  select ${itemColumns}, fused.score, fused.is_near as "isNear", fused.cosine as similarity, fused.text_score as terms
    from fused
    join memory_items item on item.id = fused.item_id and item.state = 'live'
   where fused.score > 0 and fused.score >= $5::float8 ${recalledOnly ? `and ${inRecallSql}` : ''}
   order by fused.score desc, item.created_at desc, item.id desc
   limit $4::integer`;
}

/** A conversation is ranked and shown by its best passage. */
const episodesSql = `
  , best as (select distinct on (conversation_id) * from fused order by conversation_id, score desc)
  select conversation.id, conversation.title, conversation.subject, best.text, best.score,
         conversation.started_at as "startedAt", conversation.last_turn_at as "lastTurnAt"
    from best
    join conversations conversation on conversation.id = best.conversation_id
   where best.score > 0 and best.score >= $5::float8
   order by best.score desc, conversation.last_turn_at desc, conversation.id desc
   limit $4::integer`;
