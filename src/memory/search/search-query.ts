/**
 * The statement behind a search: words and vectors looked up by their indexes, put together, and ranked once (decisions 9).
 *
 * Words. The query's words without English stop words, the 8 rarest of them by what `memory_words` knows. Each brings at most 100 passages
 * (so a frequent word cannot crowd out a rare one), and the 200 with the most of them are ranked: a word counts by its rarity, its stem a
 * little less than the word itself, and the score is the share of the query that a passage has.
 *
 * Vectors. The 100 nearest by cosine among those of the query's model. The planner reads the few passages of a small project or subject
 * and sorts them; for a large project it takes the index of that dimension where there is one, since order and condition are written as the
 * index has them.
 *
 * Fusion. Models differ in what cosine unrelated texts have (0.1 here, 0.7 there), so a cosine counts from the least of the 100 on. Words
 * count `wordsWeight` of that. Measured by `npm run measure-search`: docs/memory.md.
 */
import { inRecallSql, itemColumns } from '../records/item-record.ts';
import { inScope } from '../text/subject-scope.ts';

/** How much words count beside vectors. */
const textWeight = 0.35;
/** A passage whose vector is not there yet: its words speak for its meaning too, at half. */
const unembeddedTextWeight = 0.5;
const stemWeight = 0.85;
const maxTerms = 8;
const maxPassagesPerTerm = 100;
const maxTextCandidates = 200;
const maxVectorCandidates = 100;

export interface SearchVariant {
  readonly of: 'memories' | 'episodes';
  /** Dimensions of the query's vector; null searches by words alone. A number of ours: it stands in the text, as the index has it. */
  readonly dims: number | null;
  /** Leaves out memories that are not recalled. */
  readonly recalledOnly: boolean;
}

/** Parameters: project, subject, query, limit, least score, kinds; with a vector also the vector and its model. */
export function searchStatement({ of, dims, recalledOnly }: SearchVariant): string {
  const owner = of === 'memories' ? 'item_id' : 'conversation_id';
  const filter = `passage.project_id = $1::uuid and ${inScope('passage.subject', '$2')} and passage.${owner} is not null
    and ($6::text[] is null or passage.kind = any($6::text[]))`;
  return `with ${queryTermsSql}, ${textCandidatesSql(filter)}, ${vectorCandidatesSql(filter, dims)}, ${scoredSql(dims)}, ${fusedSql(dims)}
  ${of === 'memories' ? memoriesSql(recalledOnly) : episodesSql}`;
}

const queryTermsSql = `
  tokens as (
    select token.lexeme as word, plainto_tsquery('simple', token.lexeme) as exact, plainto_tsquery('english', token.lexeme) as stem,
           coalesce((select max(known.passages) from memory_words known
                      where known.project_id = $1::uuid
                        and known.word = any(token.lexeme || tsvector_to_array(to_tsvector('english', token.lexeme)))), 0) as passages
      from unnest(to_tsvector('simple', $3::text)) as token
  ),
  total as (select coalesce((select passages from memory_embeddings where project_id = $1::uuid), 0) as passages),
  words as (
    select token.exact, token.stem, token.passages,
           ln(1 + (total.passages + 1)::float8 / (token.passages + 1)) as weight,
           row_number() over (order by token.passages, length(token.word) desc, token.word) as rank
      from tokens token, total
     -- A word without a stem is a stop word.
     where numnode(token.stem) > 0 or not exists (select 1 from tokens other where numnode(other.stem) > 0)
     order by rank
     limit ${maxTerms}
  )`;

/** Words of every tenth passage bring no candidates where there are rarer ones; they count in the ranking. */
function textCandidatesSql(filter: string): string {
  return `
  by_words as materialized (
    select found.id
      from words word
      cross join total
      cross join lateral (
        select passage.id from memory_passages passage
         where passage.lexemes @@ (word.exact || word.stem) and ${filter}
         limit ${maxPassagesPerTerm}
      ) found
     where word.rank = 1 or word.passages * 10 <= total.passages
     group by found.id
     order by sum(word.weight) desc, found.id desc
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
      from (select id, false as is_near from by_words union all select id, true from by_vector) as found
     group by id
  ),
  scored as materialized (
    select passage.item_id, passage.conversation_id, passage.text, candidate.is_near, ${cosine} as cosine, coalesce(match.score, 0) as words
      from candidates candidate
      join memory_passages passage on passage.id = candidate.id
      cross join lateral (
        select sum(word.weight * case when passage.lexemes @@ word.exact then 1
                                      when passage.lexemes @@ word.stem then ${stemWeight}
                                      else 0 end) / sum(word.weight) as score
          from words word
      ) match
  )`;
}

function fusedSql(dims: number | null): string {
  if (dims === null) return `fused as (select *, words as score from scored)`;
  return `
  background as (
    -- Of few passages the least near tells little about what is unrelated.
    select least(0.99, coalesce(min(cosine), 0) * least(1, count(*) / ${maxVectorCandidates}.0)) as level from scored where is_near
  ),
  fused as (
    select scored.*, least(1, (case when cosine is null then ${unembeddedTextWeight} * words else greatest(0, cosine - level) / (1 - level) end
                               + ${textWeight} * words) / ${1 + textWeight}) as score
      from scored, background
  )`;
}

function memoriesSql(recalledOnly: boolean): string {
  return `
  select ${itemColumns}, fused.score, fused.is_near as "isNear", fused.words > 0 as "hasWords"
    from fused
    join memory_items item on item.id = fused.item_id and item.state = 'live'
   where fused.score > 0 and fused.score >= $5::float8 ${recalledOnly ? `and ${inRecallSql}` : ''}
   order by fused.score desc, item.created_at desc, item.id desc
   limit $4::integer`;
}

/** A conversation counts as much as its best passage, which is also what is shown of it. */
const episodesSql = `
  , best as (select distinct on (conversation_id) * from fused order by conversation_id, score desc)
  select conversation.id, conversation.title, conversation.subject, best.text, best.score,
         conversation.started_at as "startedAt", conversation.last_turn_at as "lastTurnAt"
    from best
    join conversations conversation on conversation.id = best.conversation_id
   where best.score > 0 and best.score >= $5::float8
   order by best.score desc, conversation.last_turn_at desc, conversation.id desc
   limit $4::integer`;
