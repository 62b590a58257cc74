import { toUsd } from '../../core/cost.ts';
import { formatTime, formatTimeOrNull } from '../../core/time.ts';
import type { Episode } from '../../memory/conversations/episodes.ts';
import type { ErasureReport, ErasureSummary } from '../../memory/erasure/erasure-report.ts';
import type { Batch, BatchGroup, BatchProgress, BatchWithGroups } from '../../memory/learning/batches.ts';
import type { RememberReceipt } from '../../memory/learning/remember.ts';
import type { FoundMemory } from '../../memory/recall/find-memories.ts';
import type { RecallExplanation } from '../../memory/recall/recall.ts';
import type { Page, WakeUp } from '../../memory/recall/wake-up.ts';
import type { StoredMessage } from '../../memory/records/conversation-messages.ts';
import type { Item } from '../../memory/records/item-record.ts';
import type { Fact } from '../../memory/search/graph.ts';
import type { SearchResult } from '../../memory/search/search.ts';

type Json = Record<string, unknown>;

export function toItemJson(item: Item): Json {
  return {
    id: item.id,
    object: 'memory.item',
    text: item.text,
    kind: item.kind,
    importance: item.importance,
    subject: item.subject,
    pinned: item.pinned,
    origin: item.origin,
    author: item.author,
    state: item.state,
    in_recall: item.inRecall,
    ratings: { useful: item.useful, wrong: item.wrong },
    episode_id: item.conversationId,
    supersedes: item.supersedes,
    superseded_by: item.supersededBy,
    created_at: formatTime(item.createdAt),
    updated_at: formatTime(item.updatedAt),
    closed_at: formatTimeOrNull(item.closedAt),
  };
}

export function toRemovalJson({ id, state, closedAt }: Item): Json {
  return { id, object: 'memory.item', deleted: true, state, closed_at: formatTimeOrNull(closedAt) };
}

export function toSearchJson({ vector, memories, episodes }: SearchResult): Json {
  return {
    vector,
    memories: memories.map(({ item, score, matchedBy }) => ({ item: toItemJson(item), score: roundScore(score), matched_by: matchedBy })),
    episodes: episodes.map(({ id, title, subject, snippet, score, startedAt, lastTurnAt }) => ({
      id,
      title,
      subject,
      snippet,
      score: roundScore(score),
      started_at: formatTime(startedAt),
      last_turn_at: formatTime(lastTurnAt),
    })),
  };
}

export function toRecallJson({ query, block, used, omitted, ...found }: RecallExplanation): Json {
  return {
    object: 'memory.recall',
    dry_run: true,
    enabled: found.isEnabled,
    query,
    block,
    memories: used.map(toFoundJson),
    left_out: omitted.map((memory) => ({ ...toFoundJson(memory), reason: memory.reason })),
    vector: found.vector !== null,
    reranked: found.isReranked,
    late: found.isLate,
    duration_ms: Math.round(found.durationMs * 10) / 10,
  };
}

function toFoundJson({ item, score, matchedBy, parts }: FoundMemory): Json {
  const why = Object.entries(parts).map(([name, value]) => [name, value === null ? null : roundScore(value)]);
  return { item: toItemJson(item), score: roundScore(score), matched_by: matchedBy, why: Object.fromEntries(why) };
}

export function toFactsJson(facts: readonly Fact[]): Json {
  return {
    facts: facts.map((fact) => ({
      id: fact.id,
      source: { id: fact.sourceId, name: fact.sourceName },
      relation: fact.relation,
      target: { id: fact.targetId, name: fact.targetName },
      fact: fact.fact,
      subject: fact.subject,
      valid_from: formatTime(fact.validFrom),
      valid_to: formatTimeOrNull(fact.validTo),
      created_at: formatTime(fact.createdAt),
      item_ids: fact.itemIds,
    })),
  };
}

export function toWakeUpJson(context: WakeUp): Json {
  return {
    pinned: context.pinned.map(toItemJson),
    trusted: context.trusted.map(toItemJson),
    subject_memories: context.subjectMemories.map(toItemJson),
    episodes: context.episodes.map(({ id, title, lastTurnAt }) => ({ id, title, last_turn_at: formatTime(lastTurnAt) })),
    knowledge_page: toPageJson(context.knowledge),
    profile: toPageJson(context.profile),
    text: context.text,
  };
}

function toPageJson(page: Page | null): Json | null {
  return page && { text: page.text, updated_at: formatTime(page.updatedAt) };
}

export function toEpisodeJson(episode: Episode): Json {
  return {
    id: episode.id,
    object: 'memory.episode',
    title: episode.title,
    subject: episode.subject,
    source: episode.source,
    state: episode.state,
    turns: episode.messages.length,
    started_at: formatTime(episode.startedAt),
    last_turn_at: formatTime(episode.lastTurnAt),
    read_at: formatTimeOrNull(episode.readAt),
    text: episode.text,
    messages: episode.messages.map(toMessageJson),
  };
}

function toMessageJson({ role, text, toolCalls, createdAt }: StoredMessage): Json {
  return { role, content: text, ...(toolCalls.length > 0 && { tool_calls: toolCalls }), created_at: formatTime(createdAt) };
}

export function toRememberJson({ conversationId, batchId, focus }: RememberReceipt): Json {
  return { episode_id: conversationId, batch_id: batchId, status: 'queued', focus };
}

export function toErasureJson({ id, sha256, erasedAt, deleted, cacheEntries, queued, state, purged }: ErasureSummary): Json {
  return {
    object: 'memory.erasure',
    id,
    subject_sha256: sha256.toString('hex'),
    erased_at: formatTime(erasedAt),
    deleted: { ...deleted, cache_entries: cacheEntries, queued_messages: queued },
    // `text_in_history` is always false, because workflow histories only contain ids, counts and hashes.
    workflows: { id: `erasure/${id}`, state, purged, text_in_history: false },
  };
}

export function toErasureReportJson(report: ErasureReport): Json {
  return {
    ...toErasureJson(report),
    asked_by: report.askedBy,
    processes: { told: report.processes, drained: report.drained },
    done_at: formatTimeOrNull(report.doneAt),
    restored_at: formatTimeOrNull(report.restoredAt),
  };
}

export function toBatchJson(batch: Batch | BatchWithGroups): Json {
  return {
    id: batch.id,
    object: 'memory.batch',
    project: batch.project,
    kind: batch.kind,
    state: batch.state,
    episode_id: batch.conversationId,
    workflow_id: batch.workflowId,
    run_url: batch.runUrl,
    ...toProgressJson(batch),
    created_at: formatTime(batch.createdAt),
    finished_at: formatTimeOrNull(batch.finishedAt),
    ...('groups' in batch && { groups: batch.groups.map(toGroupJson) }),
  };
}

function toGroupJson(group: BatchGroup): Json {
  const { position, subjectSha256, state } = group;
  return { position, subject_sha256: subjectSha256, state, ...toProgressJson(group) };
}

function toProgressJson(progress: BatchProgress): Json {
  const { messages, attempts, nextTryAt, error, errorMessage, costNanos, written, repeated, dropped, merged, facts } = progress;
  return {
    messages,
    attempts,
    next_try_at: formatTimeOrNull(nextTryAt),
    error: error === null ? null : { code: error, message: errorMessage },
    cost: toUsd(costNanos),
    memories: { written, repeated, dropped, merged },
    facts,
  };
}

function roundScore(score: number): number {
  return Math.round(score * 10_000) / 10_000;
}
