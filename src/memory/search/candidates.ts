/**
 * Candidates of a search: passages that contain terms of the query, and passages near its vector.
 *
 * Text. Uses the 8 rarest query terms that are not stopwords. Each contributes at most 200 passages, so a frequent term cannot crowd out a
 * rare one; the best 200 are ranked.
 *
 * Vectors. The 100 nearest passages by cosine among those of the query's model. For a small project or subject the planner sorts its
 * passages; for a large one it uses the index of the dimension, whose expression and condition equal those of the statement.
 */

const maxTerms = 8;
const maxPassagesPerTerm = 200;
const maxTextCandidates = 200;
export const maxVectorCandidates = 100;
/** Passages of the scope that are counted when no statistics of the project are known yet. */
const maxCounted = 1_000;

export interface CandidateOptions {
  readonly scope: string;
  readonly textFilter: string;
  readonly vectorFilter: string;
  readonly dims: number | null;
}

/** `terms` with their rarity, and `candidates` (id, is_near). */
export function candidatesSql({ scope, textFilter, vectorFilter, dims }: CandidateOptions): string {
  return `${tokensSql(scope)}, ${textCandidatesSql(textFilter)},
  ${vectorCandidatesSql(vectorFilter, dims)},
  candidates as (
    select id, bool_or(is_near) as is_near
      from (select id, false as is_near from by_text union all select id, true from by_vector) as matches
     group by id
  )`;
}

/** Terms with the number of passages that contain them, of the daily statistics: 0 where rare or not counted yet. */
function tokensSql(scope: string): string {
  return `
  tokens as (
    select token.lexeme as term, plainto_tsquery('simple', token.lexeme) as exact, plainto_tsquery('english', token.lexeme) as stem,
           coalesce((select max(stat.passages) from memory_words stat
                      where stat.project_id = $1::uuid
                        and stat.word = any(token.lexeme || tsvector_to_array(to_tsvector('english', token.lexeme)))), 0) as passages
      from unnest(to_tsvector('simple', $3::text)) as token
  ),
  total as materialized (
    select coalesce((select nullif(passages, 0) from memory_embeddings where project_id = $1::uuid),
                    (select count(*) from (select from memory_passages passage where ${scope} limit ${maxCounted}) as counted)) as passages
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
 * A term in more than a tenth of the passages yields candidates only when no rarer term exists; it still counts in the ranking. `rarity` is 1
 * for a term that no other passage contains, and near 0 for one that most contain.
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
     where term.rank = 1 or term.passages * 10 <= total.passages
  ),
  terms as materialized (
    select term.rank, term.exact, term.stem,
           ln(1 + (total.passages + 1)::float8
                  / (1 + greatest(term.passages, (select count(*) from matches match where match.rank = term.rank))))
             / ln(2 + total.passages) as rarity
      from rarest term, total
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
