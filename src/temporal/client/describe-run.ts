/**
 * Builds everything that operators see about a run in Temporal, i.e. its static summary and details, its memo, and its
 * search attributes. Temporal stores all of these unencrypted.
 */
import { searchAttributes, type WorkflowName } from '../../../workflows/contract.ts';
import { note, toMarkdown } from '../../../workflows/notes.ts';
import type { OutboxEntry, OutboxInput } from '../../db/outbox.ts';

/**
 * An outbox entry with the slug of its project. There's no slug if the project was deleted, or if the work doesn't
 * belong to one.
 */
export interface StartEntry extends OutboxEntry {
  readonly projectSlug?: string | null;
}

export function describeRun(workflow: WorkflowName, { workflowId, projectId, projectSlug, input }: StartEntry) {
  const slug = projectSlug ?? '';
  const { summary, about, ids = [], batchId } = describeWork(workflow, input, slug);
  const project = projectId === undefined ? [] : [note('project', slug, projectId)];
  const kind = workflowId.split('/', 1)[0] ?? '';
  return {
    staticSummary: summary,
    // Operators have to scroll to see the end of long details. That's where we put the project, because the summary
    // already contains it.
    staticDetails: toMarkdown([about, ...ids, ...project]),
    // The memo contains the summary as well, because a run that continues as new keeps its memo, but not its static
    // summary and details.
    memo: { summary },
    searchAttributes: [
      { key: searchAttributes.kind, value: kind },
      ...(projectId === undefined ? [] : [{ key: searchAttributes.project, value: projectId }]),
      ...(slug === '' ? [] : [{ key: searchAttributes.projectSlug, value: slug }]),
      ...(batchId === undefined ? [] : [{ key: searchAttributes.batch, value: batchId }]),
      // Runs of these workflows only wait for a timer, so Temporal's own status says enough. A state attribute would
      // double the number of events in their histories.
      ...(workflow === 'conversationIdle' || workflow === 'idleConversations' ? [] : [{ key: searchAttributes.state, value: 'running' }]),
    ],
  };
}

interface WorkDescription {
  readonly summary: string;
  readonly about: string;
  /** Lines with one id each. Operators can paste the ids into the API or the CLI. */
  readonly ids?: readonly string[];
  readonly batchId?: string;
}

function describeWork(workflow: WorkflowName, input: OutboxInput, slug: string): WorkDescription {
  const text = (name: string): string => String(input[name] ?? '');
  switch (workflow) {
    case 'conversationIdle': {
      const ids = [note('conversation', text('conversation_id')), note('opening', text('opened'))];
      return { summary: note('conversationIdle', slug), about: note('aboutConversation'), ids };
    }
    case 'projectLearning':
      return { summary: note('projectLearning', slug), about: note('aboutLearning') };
    case 'learningBatch': {
      const batchId = text('batch_id');
      const ids = [note('replayBatch', batchId), note('showBatch', batchId)];
      return { summary: note('learningBatch', slug, batchId), about: note('aboutBatch'), ids, batchId };
    }
    case 'embedMemory':
      return { summary: note('embedMemory', slug, text('run')), about: note('aboutEmbeddings'), ids: [note('projectRun', text('run'))] };
    case 'idleConversations': {
      const run = text('run');
      return { summary: note('idleConversations', slug, run), about: note('aboutConversations'), ids: [note('projectRun', run)] };
    }
    case 'subjectErasure': {
      const id = text('erasure_id');
      return { summary: note('subjectErasure', slug, id), about: note('aboutErasure'), ids: [note('erasure', id)] };
    }
    case 'videoOperation': {
      const id = text('call_id');
      return { summary: note('videoOperation', slug, id), about: note('aboutVideo'), ids: [note('call', id)] };
    }
    case 'dailyCleanup':
      return { summary: note('dailyCleanup'), about: note('aboutCleanup') };
  }
}
