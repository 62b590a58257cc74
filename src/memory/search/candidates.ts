/**
 * Finds candidates for a search: passages that contain words of the query, and passages near its vector.
 *
 * Text: We use the 8 rarest words of the query, ignoring stop words. Each word contributes at most 100 passages, so a
 * frequent word can't crowd out a rare one. The best 200 are ranked.
 *
 * Vectors: We use the 100 nearest passages by cosine that have a vector of the query's model. For a small project or
 * subject the planner sorts all of its passages. For a large one it uses the vector index of the project, which
 * requires the same expression and condition as in the index definition.
 *
 * A search of a subject reads the subject's own passages first and then those of the whole project, in two parts. With
 * one condition for both, PostgreSQL would read the passages of all subjects and drop most of them.
 */

const maxTerms = 8;
const maxPassagesPerTerm = 100;
const maxTextCandidates = 200;
export const maxVectorCandidates = 100;
/** We count up to this many passages of the scope. Beyond that we use the project's daily statistics. */
const maxCounted = 1_000;

export interface CandidateVariant {
  readonly of: 'memories' | 'episodes';
  readonly dims: number | null;
  /** Whether $2 is a subject. If not, the search reads the whole project. */
  readonly hasSubject: boolean;
}

/** Returns the CTEs `terms`, which contains the words and their rarity, and `candidates` (id, is_near). */
export function candidatesSql(variant: CandidateVariant): string {
  const owner = variant.of === 'memories' ? 'item_id' : 'conversation_id';
  const filter = `passage.project_id = $1::uuid and passage.${owner} is not null and ($6::text[] is null or passage.kind = any($6::text[]))`;
  const parts = scopeParts(variant).map((scope) => `${filter} and ${scope}`);
  return `${tokensSql(variant)}, ${textCandidatesSql(parts)}, ${vectorCandidatesSql(parts, variant.dims)},
  candidates as (
    select id, bool_or(is_near) as is_near
      from (select id, false as is_near from by_text union all select id, true from by_vector) as matches
     group by id
  )`;
}

/** Conditions of which each passage in the scope meets exactly one. */
function scopeParts({ hasSubject }: CandidateVariant): readonly string[] {
  return hasSubject ? ['passage.subject = $2::text', 'passage.subject is null'] : ['$2::text is null'];
}

/**
 * Selects the words of the query and the number of passages that contain them according to the daily statistics, which
 * is 0 if a word is rare or hasn't been counted yet.
 */
function tokensSql(variant: CandidateVariant): string {
  return `
  words as (
    select form.term, max(stat.passages) as passages
      from (select lexeme as term, unnest(lexeme || tsvector_to_array(to_tsvector('english', lexeme))) as word
              from unnest(to_tsvector('simple', $3::text))) form
      join memory_words stat on stat.project_id = $1::uuid and stat.word = form.word
     group by form.term
  ),
  tokens as (
    select token.lexeme as term, plainto_tsquery('simple', token.lexeme) as exact, plainto_tsquery('english', token.lexeme) as stem,
           coalesce(words.passages, 0) as passages
      from unnest(to_tsvector('simple', $3::text)) as token
      left join words on words.term = token.lexeme
  ),
  total as materialized (${countSql(variant)}),
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
 * Selects the number of memories, or of passages of any kind, in the scope, up to `maxCounted`. If the daily statistics say that there are at least
 * as many, we don't count them again in each search. Without the ORDER BY, PostgreSQL might read rows of other projects
 * until it has found enough.
 */
function countSql(variant: CandidateVariant): string {
  const isCounted = variant.of === 'memories' ? 'passage.item_id is not null' : 'true';
  const counts = scopeParts(variant).map(
    (scope) => `(select from memory_passages passage
                  where passage.project_id = $1::uuid and ${isCounted} and ${scope}
                  order by passage.subject limit ${maxCounted})`,
  );
  return `
    select state.sampled, case when state.known >= ${maxCounted} then ${maxCounted}
                               else (select count(*) from (${counts.join(' union all ')}) as counted) end as counted
      from (select coalesce(max(passages), 0) as sampled, coalesce(max(${knownSql(variant)}), 0) as known
              from memory_embeddings where project_id = $1::uuid) state`;
}

/** A column of `memory_embeddings` with a lower bound of what `countSql` counts. */
function knownSql({ of, hasSubject }: CandidateVariant): string {
  if (hasSubject) return of === 'memories' ? 'shared_memories' : 'shared_passages';
  return of === 'memories' ? 'memories' : 'passages';
}

/**
 * A word in more than a tenth of the passages only yields candidates if there's no rarer word, but it still counts in
 * the ranking. `rarity` is 1 for a word that no other passage contains, and close to 0 for a word in most passages.
 */
function textCandidatesSql(parts: readonly string[]): string {
  const matches = parts.map(
    (part) => `(select passage.id from memory_passages passage
                  where passage.lexemes @@ (term.exact || term.stem) and ${part}
                  limit ${maxPassagesPerTerm})`,
  );
  return `
  matches as materialized (
    select term.rank, match.id
      from rarest term
      cross join total
      cross join lateral (select id from (${matches.join(' union all ')}) part limit ${maxPassagesPerTerm}) match
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

function vectorCandidatesSql(parts: readonly string[], dims: number | null): string {
  if (dims === null) return `by_vector as (select null::bigint as id where false)`;
  const distance = `passage.embedding::halfvec(${dims}) <=> $9::halfvec(${dims})`;
  const nearest = parts.map(
    (part) => `(select passage.id, ${distance} as distance
       from memory_passages passage
      where passage.embedding_dims = ${dims} and passage.embedding_model = $10::text and ${part}
      order by ${distance}
      limit ${maxVectorCandidates})`,
  );
  return `
  by_vector as materialized (
    select id from (${nearest.join(' union all ')}) near order by distance limit ${maxVectorCandidates}
  )`;
}
