/**
 * Computes the score of a candidate. `npm run benchmark-memory` measures the quality, and
 * docs/decisions/2026-11-23-search-ranking.md shows what each part contributes.
 *
 * Similarity: What the nearest passages have in common doesn't tell us which of them answers the query, so we subtract
 * a part of their mean vector from the query's vector, except for pieces of conversations. Unrelated texts have a
 * cosine of 0.1 with some models and 0.7 with others, so we measure from the least similar of the nearest passages.
 *
 * Text: Each word of the query that the passage contains adds its rarity. A stem match adds slightly less.
 *
 * Length: Long memories contain a bit of everything, so we prefer the shorter of two equally good ones.
 *
 * Time: Memories from a time that the query mentions rank higher.
 *
 * Neighbours: A memory gets a share of the score of the best other memory learned from the same conversation.
 */
import { maxVectorCandidates } from './candidates.ts';

/** The weight of a match of the rarest word, relative to a similarity of 1. */
const textWeight = 0.2;
/** For passages that don't have an embedding yet, we multiply the text score by this and use it as the similarity. */
const unembeddedTextWeight = 0.5;
const stemWeight = 0.85;
const commonVectorWeight = 0.5;
/**
 * The relevance of a memory that's longer than this many characters is divided by 1 + `lengthWeight` * ln(length /
 * `shortText`).
 */
const shortText = 200;
const lengthWeight = 0.15;
const timeWeight = 0.3;
const neighbourWeight = 0.2;
/**
 * The largest share by which votes can change a score. A single vote has half of this effect, and further votes
 * approach the limit.
 */
const voteWeight = 0.1;

/**
 * Returns the CTE `relevant`. It contains the candidates with their `relevance`, and the `maximum` relevance that a
 * passage can have.
 */
export function relevanceSql(of: 'memories' | 'episodes', dims: number | null): string {
  const similarity = `case when cosine is null then ${unembeddedTextWeight} * terms else similarity end`;
  return `${scoredSql(dims)}, ${similaritySql(of, dims)},
  relevant as (
    select rated.*, ${dims === null ? '' : '1 + '}${textWeight} * query.rarity as maximum,
           (${dims === null ? '' : `${similarity} + `}${textWeight} * query.rarity * terms) / ${of === 'memories' ? lengthSql : '1'} as relevance
      from rated, query
  )`;
}

const lengthSql = `(1 + ${lengthWeight} * ln(greatest(1, char_length(text)::float8 / ${shortText})))`;

/**
 * Scores each candidate by the words it shares with the query. Also selects its vector, if that was computed with the
 * query's model.
 */
function scoredSql(dims: number | null): string {
  const vector =
    dims === null
      ? `null::halfvec`
      : `case when passage.embedding_dims = ${dims} and passage.embedding_model = $10::text then passage.embedding::halfvec(${dims}) end`;
  return `
  query as (select coalesce(sum(rarity), 0) as rarity from terms),
  scored as materialized (
    select passage.item_id, passage.conversation_id, passage.text, candidate.is_near, ${vector} as vector,
           coalesce(match.rarity / nullif(query.rarity, 0), 0) as terms
      from candidates candidate
      join memory_passages passage on passage.id = candidate.id
      cross join query
      -- Decompresses the lexemes of a long text once.
      cross join lateral (select passage.lexemes || '' as lexemes offset 0) decompressed
      cross join lateral (
        select sum(term.rarity * case when decompressed.lexemes @@ term.exact then 1
                                      when decompressed.lexemes @@ term.stem then ${stemWeight}
                                      else 0 end) as rarity
          from terms term
      ) match
  )`;
}

function similaritySql(of: 'memories' | 'episodes', dims: number | null): string {
  if (dims === null) return `rated as (select *, null::float8 as cosine, 0::float8 as similarity from scored)`;
  return `
  common as (
    -- With few passages their mean and the least near one say little about unrelated texts.
    select avg(vector) as vector, least(1, count(*)::float8 / ${maxVectorCandidates}) as certainty from scored where is_near
  ),
  compared as materialized (
    select scored.*, case when scored.vector is not null then greatest(0, 1 - (scored.vector <=> $9::halfvec(${dims}))) end as cosine,
           ${of === 'episodes' ? '0::float8' : commonSql} as common, common.certainty
      from scored, common
  ),
  background as (
    select least(0.99, coalesce(min(cosine * certainty), 0)) as cosine, coalesce(min((cosine - common) * certainty), 0) as level
      from compared
     where is_near
  ),
  rated as (
    select compared.*, greatest(0, compared.cosine - compared.common - background.level) / (1 - background.cosine) as similarity
      from compared, background
  )`;
}

/** `<#>` is the negative inner product, so we negate it. */
const commonSql = `${commonVectorWeight} * common.certainty * -(scored.vector <#> common.vector)`;

/**
 * Returns SQL for the bonus of a text that was written at a time the query mentions. `start` and `last` are the times
 * between which it was written.
 */
export function whenNamedSql(start: string, last: string): string {
  return `case when exists (select from unnest($7::timestamptz[], $8::timestamptz[]) as named (since, until)
                             where ${start} < named.until and ${last} >= named.since) then ${timeWeight} else 0 end`;
}

/** SQL for the bonus of a row in `found` if the query also matches other memories of the same conversation. */
export const neighbourScoreSql = `case
    when found.conversation_id is null then 0
    else ${neighbourWeight} * coalesce(case when row_number() over others = 1 then lead(found.relevance) over others
                                            else first_value(found.relevance) over others end, 0)
  end`;
export const neighboursSql = `others as (partition by found.conversation_id order by found.relevance desc)`;

/** Scales the relevance to at most 1, before bonuses for time and neighbours are added. */
export function toScoreSql(relevance: string, maximum: string): string {
  return `(${relevance}) / ${maximum}`;
}

/**
 * SQL for how much votes raise or lower the score of `item`, as a share of the score. We ignore votes from calls of
 * other end users. Most memories don't have any ratings, and we don't look up votes for those.
 */
export const voteSql = `case
    when item.ratings_useful + item.ratings_wrong = 0 then 0
    else coalesce((select ${voteWeight} * sum(case when vote.useful then 1 else -1 end)::float8 / (count(*) + 1)
                     from memory_votes vote
                    where vote.item_id = item.id and (vote.subject is null or vote.subject = coalesce($2::text, item.subject))), 0)
  end`;
