/**
 * Finds candidates for a search: passages that contain words of the query, and passages near its vector.
 *
 * Text: We use the 8 rarest words of the query, ignoring stop words. Each word contributes at most 100 passages, so a
 * frequent word can't crowd out a rare one. If that isn't all of them, we also look for passages that contain two of
 * the rarest words. The best 200 are ranked. To find a frequent word, we only look at the newest passages, because the
 * index would return all passages that contain it, and most of them are about something else.
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
/**
 * We also search for passages that contain two rare words. This limits how many of the rarest words we combine into
 * pairs.
 */
const maxPairedTerms = 3;
/**
 * A word counts as frequent if more passages than this contain it. PostgreSQL reads all of them before it returns the
 * first hundred, which takes about 0.2 ms per thousand.
 */
const maxPassagesOfRareTerm = 10_000;
/** Frequent words are only searched in this many of the newest passages. */
const recentPassages = 1_000;
export const maxVectorCandidates = 100;
/**
 * Limits how many passages are counted to estimate the rarity of a word. Beyond this, the project's daily statistics
 * are used.
 */
const maxCounted = 1_000;

export interface CandidateVariant {
  readonly of: 'memories' | 'episodes';
  /**
   * How many dimensions the query vector has, or null to search by text only. The index requires a literal, so we
   * insert this number into the statement. It must never come from a client.
   */
  readonly dims: number | null;
  /**
   * True if the search is for a subject (parameter $2). It then covers the subject's own passages and the project-wide
   * ones. Otherwise it covers all passages of the project.
   */
  readonly hasSubject: boolean;
}

/**
 * Returns CTEs that find the candidates. `terms` contains the words of the query with their rarity. `candidates`
 * contains the ids of the passages, and `is_near` is true if a passage was found by its vector.
 */
export function candidatesSql(variant: CandidateVariant): string {
  const scopes = scopeParts(variant);
  const parts = scopes.map((scope) => `${ownerSql(variant)} and ${kindSql} and ${scope}`);
  return `${tokensSql(variant)}, ${textCandidatesSql(parts, recentSql(variant))}, ${vectorCandidatesSql(parts, variant.dims)},
  candidates as (
    select id, bool_or(is_near) as is_near
      from (select id, false as is_near from by_text union all select id, true from by_vector) as matches
     group by id
  )`;
}

const kindSql = '($6::text[] is null or passage.kind = any($6::text[]))';

function ownerSql({ of }: CandidateVariant): string {
  return `passage.project_id = $1::uuid and passage.${of === 'memories' ? 'item_id' : 'conversation_id'} is not null`;
}

/**
 * Returns conditions that divide the passages to search into disjoint sets, starting with the subject's own passages.
 */
function scopeParts({ hasSubject }: CandidateVariant): readonly string[] {
  return hasSubject ? ['passage.subject = $2::text', 'passage.subject is null'] : ['$2::text is null'];
}

/**
 * Selects the words of the query together with the number of passages that contain them. The number comes from the
 * daily statistics and is 0 for words that are rare or haven't been counted yet.
 */
function tokensSql(variant: CandidateVariant): string {
  const of = countedAs(variant);
  return `
  asked as (
    select split_part(line, E'\\t', 1) as term, split_part(line, E'\\t', 2) as forms from unnest(string_to_array($3::text, E'\\n')) as line
  ),
  -- A term with several lexemes is at least as rare as the rarest of them.
  words as (
    select asked.term, asked.forms, min(counted.passages) as passages
      from asked
      cross join lateral unnest(to_tsvector('simple', asked.term)) as token
      cross join lateral (
        select coalesce(max(stat.${of}), 0) as passages
          from memory_words stat
         where stat.project_id = $1::uuid
           and stat.word = any(token.lexeme || tsvector_to_array(to_tsvector('english', token.lexeme) || to_tsvector('simple', asked.forms)))
      ) counted
     group by asked.term, asked.forms
  ),
  tokens as (
    select words.term, words.passages, plainto_tsquery('simple', words.term) as exact,
           plainto_tsquery('english', words.term) || to_tsquery('simple', words.forms) as stem,
           numnode(plainto_tsquery('english', words.term)) = 0 as is_stop_word
      from words
  ),
  total as materialized (${countSql(variant)}),
  rarest as materialized (
    select token.exact, token.stem, token.passages, row_number() over (order by token.passages, length(token.term) desc, token.term) as rank,
           token.passages > ${maxPassagesOfRareTerm} or token.passages * 10 > total.sampled as is_frequent
      from tokens token
      cross join total
     -- A token without an English stem is a stop word.
     where not token.is_stop_word or not exists (select 1 from tokens other where not other.is_stop_word)
     order by rank
     limit ${maxTerms}
  )`;
}

function countedAs({ of }: CandidateVariant): 'memories' | 'passages' {
  return of === 'memories' ? 'memories' : 'passages';
}

/**
 * Counts the memories in scope, or passages of any kind, but only up to `maxCounted`. If we know from the daily
 * statistics that there are at least that many, we don't count them again. Keep the ORDER BY, because without it
 * PostgreSQL might read the rows of other projects to find enough of them.
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
      from (select coalesce(max(${countedAs(variant)}), 0) as sampled, coalesce(max(${knownSql(variant)}), 0) as known
              from memory_embeddings where project_id = $1::uuid) state`;
}

/**
 * Returns the name of a column in `memory_embeddings`. The daily statistics write a lower bound for the result of
 * `countSql` into this column.
 */
function knownSql({ of, hasSubject }: CandidateVariant): string {
  if (hasSubject) return of === 'memories' ? 'shared_memories' : 'shared_passages';
  return of === 'memories' ? 'memories' : 'passages';
}

/**
 * Selects the newest passages, which are the only ones in which we look for frequent words. In a search for a subject,
 * these are the subject's own passages. We also look at the rest of the project, but only if the rarer words have found
 * nothing.
 *
 * We apply the limit before the filters. Otherwise PostgreSQL might read the whole project to find a rare kind of
 * memory.
 */
function recentSql(variant: CandidateVariant): string {
  const isOwner = `passage.${variant.of === 'memories' ? 'item_id' : 'conversation_id'} is not null`;
  // Passages of conversations don't have an index on the subject.
  const scanned = variant.of === 'memories' ? ownerSql(variant) : 'passage.project_id = $1::uuid';
  const newest = scopeParts(variant).map(
    (scope, index) => `(select passage.id, passage.lexemes
       from (select id, lexemes, kind, item_id, conversation_id
               from memory_passages passage
              where ${scanned} and ${scope}
                and exists (select from rarest where is_frequent)${variant.hasSubject && index === 0 ? '' : ' and not exists (select from rare_matches)'}
              order by passage.subject desc, passage.id desc
              limit ${recentPassages}) passage
      where ${isOwner} and ${kindSql})`,
  );
  return newest.join(' union all ');
}

/**
 * Finds passages by their text. A word is frequent if it's in more than 10,000 passages, or in more than a tenth of
 * them. Frequent words still count when we rank the passages. `rarity` is 1 for a word that no other passage contains,
 * and close to 0 for a word that most of them contain.
 */
function textCandidatesSql(parts: readonly string[], recent: string): string {
  const matches = parts.map(
    (part) => `(select passage.id from memory_passages passage
                  where passage.lexemes @@ (term.exact || term.stem) and ${part}
                  limit ${maxPassagesPerTerm})`,
  );
  return `
  rare_matches as materialized (
    select term.rank, match.id
      from rarest term
      cross join lateral (select id from (${matches.join(' union all ')}) part limit ${maxPassagesPerTerm}) match
     where not term.is_frequent
  ),
  recent as materialized (${recent}),
  -- If we took only some matches of each of two terms, the passages that contain both are probably not among them. With
  -- a frequent term, PostgreSQL would again read all passages that contain it.
  incomplete as materialized (
    select term.rank, term.exact || term.stem as words
      from rarest term
     where term.rank <= ${maxPairedTerms}
       and (select count(*) from rare_matches match where match.rank = term.rank) = ${maxPassagesPerTerm}
  ),
  pair_matches as materialized (
    select one.rank, other.rank as other_rank, match.id
      from incomplete one
      join incomplete other on other.rank > one.rank
      cross join lateral (
        select passage.id from memory_passages passage
         where passage.lexemes @@ (one.words && other.words) and ${parts.at(-1)}
         limit ${maxPassagesPerTerm}) match
  ),
  matches as materialized (
    select rank, id from rare_matches
    union
    select case when is_other then other_rank else rank end, id from pair_matches cross join (values (true), (false)) as side (is_other)
    union
    select term.rank, match.id
      from rarest term
      cross join lateral (select recent.id from recent where recent.lexemes @@ (term.exact || term.stem) limit ${maxPassagesPerTerm}) match
     where term.is_frequent
  ),
  terms as materialized (
    select term.rank, term.exact, term.stem,
           ln(1 + (scope.size + 1) / (1 + greatest(least(found.count, ${maxPassagesPerTerm}), term.passages * scope.part))) / ln(2 + scope.size) as rarity
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
