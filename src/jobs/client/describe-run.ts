/** What Temporal shows about a run from its start: static summary and details, memo and search attributes. None of it is encrypted. */
import type { SearchAttributePair } from '@temporalio/common';
import { searchAttributes, type WorkflowName } from '../../../workflows/contract.ts';
import { note } from '../../../workflows/notes.ts';
import type { OutboxEntry, OutboxInput } from '../../db/outbox.ts';

/** An outbox entry with the slug of its project; null for a deleted project, and for work without a project. */
export interface StartEntry extends OutboxEntry {
  readonly projectSlug?: string | null;
}

export interface RunDescription {
  readonly staticSummary: string;
  /** Markdown. */
  readonly staticDetails: string;
  /** Repeats the summary: unlike the static texts, a run that continues as new keeps its memo. */
  readonly memo: { readonly summary: string };
  readonly searchAttributes: readonly SearchAttributePair[];
}

export function describeRun(workflow: WorkflowName, { workflowId, projectId, projectSlug, input }: StartEntry): RunDescription {
  const slug = projectSlug ?? '';
  const { summary, details, batchId } = describeWork(workflow, input, slug);
  const project = projectId === undefined ? [] : [note('project', slug, projectId)];
  const kind = workflowId.split('/', 1)[0] ?? '';
  return {
    staticSummary: summary,
    staticDetails: [...details, ...project].join('\n'),
    memo: { summary },
    searchAttributes: [
      { key: searchAttributes.kind, value: kind },
      ...(projectId === undefined ? [] : [{ key: searchAttributes.project, value: projectId }]),
      ...(slug === '' ? [] : [{ key: searchAttributes.projectSlug, value: slug }]),
      ...(batchId === undefined ? [] : [{ key: searchAttributes.batch, value: batchId }]),
      // The state of a reading is its Temporal status: keeping an attribute current would cost an event per conversation.
      ...(workflow === 'conversationIdle' ? [] : [{ key: searchAttributes.state, value: 'running' }]),
    ],
  };
}

interface WorkDescription {
  readonly summary: string;
  readonly details: readonly string[];
  readonly batchId?: string;
}

function describeWork(workflow: WorkflowName, input: OutboxInput, slug: string): WorkDescription {
  const text = (name: string): string => String(input[name] ?? '');
  switch (workflow) {
    case 'conversationIdle':
      return {
        summary: note('conversationIdle', slug),
        details: [note('episode', text('conversation_id')), note('opening', text('opened'))],
      };
    case 'projectLearning':
      return { summary: note('projectLearning', slug), details: [note('replayProject')] };
    case 'learningBatch': {
      const batchId = text('batch_id');
      const details = [note('replayBatch', batchId), note('showBatch', batchId)];
      return { summary: note('learningBatch', slug, batchId), details, batchId };
    }
    case 'embedMemory':
      return { summary: note('embedMemory', slug, text('run')), details: [note('embeddingRun', text('run'))] };
    case 'subjectErasure':
      return { summary: note('subjectErasure', slug, text('erasure_id')), details: [note('erasure', text('erasure_id'))] };
    case 'videoOperation':
      return { summary: note('videoOperation', slug, text('call_id')), details: [note('call', text('call_id'))] };
    case 'dailyCleanup':
      return { summary: note('dailyCleanup'), details: [note('cleanupDocs')] };
  }
}
