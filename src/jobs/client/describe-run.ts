/**
 * Builds the static summary and details, the memo and the search attributes with which we start a run. Temporal stores
 * all of these unencrypted.
 */
import type { SearchAttributePair } from '@temporalio/common';
import { searchAttributes, type WorkflowName } from '../../../workflows/contract.ts';
import { note, toMarkdown } from '../../../workflows/notes.ts';
import type { OutboxEntry, OutboxInput } from '../../db/outbox.ts';

/**
 * An outbox entry with the slug of its project. The slug is null if the project was deleted or the work doesn't belong
 * to one.
 */
export interface StartEntry extends OutboxEntry {
  readonly projectSlug?: string | null;
}

export interface RunDescription {
  readonly staticSummary: string;
  /** This is Markdown. */
  readonly staticDetails: string;
  /** Repeats the summary, because a run that continues as new keeps its memo but not its static texts. */
  readonly memo: { readonly summary: string };
  readonly searchAttributes: readonly SearchAttributePair[];
}

export function describeRun(workflow: WorkflowName, { workflowId, projectId, projectSlug, input }: StartEntry): RunDescription {
  const slug = projectSlug ?? '';
  const { summary, about, ids = [], batchId } = describeWork(workflow, input, slug);
  const project = projectId === undefined ? [] : [note('project', slug, projectId)];
  const kind = workflowId.split('/', 1)[0] ?? '';
  return {
    staticSummary: summary,
    // The UI hides the end of a text until you scroll, so we put what's also in the summary last.
    staticDetails: toMarkdown([about, ...ids, ...project]),
    memo: { summary },
    searchAttributes: [
      { key: searchAttributes.kind, value: kind },
      ...(projectId === undefined ? [] : [{ key: searchAttributes.project, value: projectId }]),
      ...(slug === '' ? [] : [{ key: searchAttributes.projectSlug, value: slug }]),
      ...(batchId === undefined ? [] : [{ key: searchAttributes.batch, value: batchId }]),
      // The state of an idle timer is its Temporal status. Keeping an attribute up to date would cost as many events as
      // the work itself.
      ...(workflow === 'conversationIdle' || workflow === 'idleConversations' ? [] : [{ key: searchAttributes.state, value: 'running' }]),
    ],
  };
}

interface WorkDescription {
  readonly summary: string;
  /** The purpose of the run. */
  readonly about: string;
  /** The ids that the API and the CLI accept. */
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
