/**
 * Finds candidates for a search: passages that contain words of the query, and passages near its vector.
 *
 * Text: We use the 8 rarest words of the query, ignoring stop words. Each word contributes at most 100 passages, so a
 * frequent word can't crowd out a rare one. The best 200 are ranked.
 *
 * Vectors: We use the 100 nearest passages by cosine that have a vector of the query's model. For a small project or
 * subject the planner sorts all of its passages. For a large one it uses the vector index of the project, which
 * requires the same expression and condition as in the index definition.
 */
import { inScope } from '../text/subject-scope.ts';

const maxTerms = 8;
const maxPassagesPerTerm = 100;
const maxTextCandidates = 200;
export const maxVectorCandidates = 100;
/** We count up to this many rows of the scope. Beyond that we use the project's daily statistics. */
const maxCounted = 1_000;

/** Returns the CTEs `terms`, which contains the words and their rarity, and `candidates` (id, is_near). */
export function candidatesSql(of: 'memories' | 'episodes', dims: number | null): string {
  const filter = `passage.project_id = $1::uuid and ${inScope('passage.subject', '$2')}
    and ($6::text[] is null or passage.kind = any($6::text[]))`;
  // Lexemes of memories have their own index, but no index fits the condition for conversations. With `is not null`,
  // PostgreSQL would read a whole index of conversations for each word.
  const isOfText = of === 'memories' ? `passage.item_id is not null` : `num_nonnulls(passage.conversation_id) = 1`;
  const isOfVector = `passage.${of === 'memories' ? 'item_id' : 'conversation_id'} is not null`;
  return `${tokensSql(of)}, ${textCandidatesSql(`${filter} and ${isOfText}`)}, ${vectorCandidatesSql(`${filter} and ${isOfVector}`, dims)},
  candidates as (
    select id, bool_or(is_near) as is_near
      from (select id, false as is_near from by_text union all select id, true from by_vector) as matches
     group by id
  )`;
}

/**
 * Selects the words of the query and the number of passages that contain them according to the daily statistics, which
 * is 0 if a word is rare or hasn't been counted yet.
 */
function tokensSql(of: 'memories' | 'episodes'): string {
  return `
  tokens as (
    select token.lexeme as term, plainto_tsquery('simple', token.lexeme) as exact, plainto_tsquery('english', token.lexeme) as stem,
           coalesce((select max(stat.passages) from memory_words stat
                      where stat.project_id = $1::uuid
                        and stat.word = any(token.lexeme || tsvector_to_array(to_tsvector('english', token.lexeme)))), 0) as passages
      from unnest(to_tsvector('simple', $3::text)) as token
  ),
  total as materialized (
    select coalesce((select passages from memory_embeddings where project_id = $1::uuid), 0) as sampled, ${countSql(of)} as counted
  ),
  rarest as materialized (
    select token.exact, token.stem, token.passages, row_number() over (order by token.passages, length(token.term) desc, token.term) as rank
      from tokens token
     -- A token without an English stem is a stopword.
     where numnode(token.stem) > 0 or not exists (select 1 from tokens other where numnode(other.stem) > 0)
     order by rank
     limit ${maxTerms}
  )`;
}

/**
 * Counts the memories or passages in the scope. It has three parts because no index can serve the condition that the
 * subject is either equal or null. Without the ORDER BY, PostgreSQL might read rows of other projects until it has
 * found enough.
 */
function countSql(of: 'memories' | 'episodes'): string {
  const rows = of === 'memories' ? `memory_items one where one.state = 'live' and` : 'memory_passages one where';
  const part = (condition: string): string =>
    `(select from ${rows} one.project_id = $1::uuid and ${condition} order by one.subject limit ${maxCounted})`;
  return `(select count(*) from (
      ${part('$2::text is null')} union all ${part('one.subject = $2::text')} union all
      ${part('one.subject is null and $2::text is not null')}) as counted)`;
}

/**
 * A word in more than a tenth of the passages only yields candidates if there's no rarer word, but it still counts in
 * the ranking. `rarity` is 1 for a word that no other passage contains, and close to 0 for a word in most passages.
 */
function textCandidatesSql(filter: string): string {
  return `
  matches as materialized (
    select term.rank, match.id
      from rarest term
      cross join total
      cross join lateral (
        select passage.id from memory_passages passage
         where passage.lexemes @@ (term.exact || term.stem) and ${filter}
         limit ${maxPassagesPerTerm}
      ) match
     where term.rank = 1 or term.passages * 10 <= total.sampled
  ),
  terms as materialized (
    select term.rank, term.exact, term.stem,
           ln(1 + (scope.size + 1) / (1 + greatest(found.count, term.passages * scope.part))) / ln(2 + scope.size) as rarity
      from rarest term
      cross join (
        select size, size / greatest(sampled, 1) as part
          from (select sampled, case when counted < ${maxCounted} then counted else greatest(counted, sampled) end::float8 as size from total) sized
      ) scope
      cross join lateral (select count(*) from matches match where match.rank = term.rank) found
  ),
  by_text as materialized (
    select match.id
      from matches match
      join terms term on term.rank = match.rank
     group by match.id
     order by sum(term.rarity) desc, match.id desc
     limit ${maxTextCandidates}
  )`;
}

function vectorCandidatesSql(filter: string, dims: number | null): string {
  if (dims === null) return `by_vector as (select null::bigint as id where false)`;
  return `
  by_vector as materialized (
    select passage.id
      from memory_passages passage
     where passage.embedding_dims = ${dims} and passage.embedding_model = $10::text and ${filter}
     order by passage.embedding::halfvec(${dims}) <=> $9::halfvec(${dims})
     limit ${maxVectorCandidates}
  )`;
}
