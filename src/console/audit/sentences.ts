/** Describes an audit entry in a sentence with a link to what was changed. */
import { isObject } from '../../core/json/narrow.ts';
import type { AuditEntry } from '../../people/audit.ts';
import { formatCount } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { shorten } from '../frame/values.ts';

export interface SentenceView {
  /** Names of the people in the entries, by id. Some are missing, e.g. because an account was deleted. */
  readonly names: ReadonlyMap<string, string>;
  /** The beginning of each memory in the entries, by `memoryKey`. Deleted memories are missing. */
  readonly memories: ReadonlyMap<string, string>;
  readonly isAdmin: boolean;
}

type About = (entry: AuditEntry, view: SentenceView) => Html | string;

interface Sentence {
  /** What the person did, e.g. `issued` in "Ada issued the key". */
  readonly did: string;
  /** Completes "tried to", e.g. `issue` in "Ada tried to issue the key". */
  readonly todo: string;
  readonly about?: About;
}

const key: About = ({ project, target, detail }) => {
  const prefix = textOf(target) ?? textOf(detail.prefix);
  const name = textOf(detail.name);
  if (prefix === null) return html`a key${name === null ? '' : html` named <strong>${name}</strong>`}`;
  return html`the key ${linkTo(project, `/keys/${prefix}`, name ?? html`<code>sk-gw-${prefix}</code>`)}`;
};

const rotatedKey: About = (entry, view) => {
  const next = textOf(entry.detail.new_prefix) ?? (textOf(entry.detail.prefix) === entry.target ? null : textOf(entry.detail.prefix));
  const old = key({ ...entry, detail: { ...entry.detail, prefix: entry.target } }, view);
  return next === null ? old : html`${old}; the new key is ${linkTo(entry.project, `/keys/${next}`, html`<code>sk-gw-${next}</code>`)}`;
};

const person: About = ({ detail, target, outcome }, { names, isAdmin }) => {
  const id = textOf(detail.person_id) ?? textOf(target);
  if (id === null) return 'a person';
  const name = names.get(id);
  if (name === undefined) return outcome === 'ok' ? 'a person whose account no longer exists' : 'a person who is not a member';
  return isAdmin ? html`<a href="/console/admin/people/${id}">${name}</a>` : html`<strong>${name}</strong>`;
};

const withRole =
  (link: string): About =>
  (entry, view) => {
    const { role } = entry.detail;
    const current = isChange(role) ? role.to : role;
    const previous = isChange(role) && role.from !== null ? `, who was ${withArticle(role.from)}` : '';
    return html`${person(entry, view)}${previous}${current === null || current === undefined ? '' : ` ${link} ${withArticle(current)}`}`;
  };

const newRole: About = (entry, view) => {
  const { role } = entry.detail;
  if (!isChange(role)) return html`the role of ${person(entry, view)}`;
  const from = role.from === null ? '' : `, who was ${withArticle(role.from)} before`;
  return html`${person(entry, view)} ${withArticle(role.to)}${from}`;
};

const application: About = ({ project, target, detail }) => {
  const name = textOf(detail.application) ?? textOf(target);
  if (name === null) return 'an application';
  return html`the application ${linkTo(project, `/applications/application?${new URLSearchParams({ name })}`, name)}`;
};

const memory: About = (entry, view) => {
  const id = textOf(entry.detail.memory) ?? textOf(entry.target);
  return id === null ? 'a memory' : memoryNamed(entry, view, id);
};

/** Quotes the text of a memory, unless the memory was erased or has reached its maximum age. */
function memoryNamed({ project: slug, projectId, outcome }: AuditEntry, { memories }: SentenceView, id: string): Html | string {
  const text = memories.get(memoryKey(projectId, id));
  if (text !== undefined) return html`the memory ${linkTo(slug, `/memory/${id}`, `“${shorten(text, maxMemoryLength)}”`)}`;
  return outcome === 'ok' ? 'a memory that is no longer stored' : 'a memory';
}

const correctedMemory: About = (entry, view) => {
  const [before, after] = [textOf(entry.detail.corrects), textOf(entry.detail.memory)];
  if (before === null || after === null) return memory(entry, view);
  const text = view.memories.get(memoryKey(entry.projectId, after));
  const to = text === undefined ? '' : html` to ${linkTo(entry.project, `/memory/${after}`, `“${shorten(text, maxMemoryLength)}”`)}`;
  return html`${memoryNamed(entry, view, before)}${to}`;
};

const maxMemoryLength = 80;

/**
 * Identifies a memory by its project and id. With the id alone, somebody could try to change a memory of another
 * project, and then read its text in their own audit log.
 */
export function memoryKey(projectId: string | null, id: string): string {
  return `${projectId} ${id.toLowerCase()}`;
}

const batch: About = ({ project, target, detail }) => {
  const id = textOf(detail.batch) ?? textOf(target);
  // Entries of deployment routes contain the project's slug instead of its id.
  const slug = project ?? textOf(detail.project);
  return id === null ? 'a learning batch' : linkTo(slug, `/batches/${id}`, 'a learning batch');
};

const batches: About = ({ detail }) => {
  const state = textOf(detail.state);
  const count = typeof detail.count === 'number' ? detail.count : Array.isArray(detail.batches) ? detail.batches.length : null;
  const all = `all ${state === null ? '' : `${state} `}learning batches`;
  return count === null ? all : `${all}, which were ${formatCount(count)}`;
};

const conversation: About = ({ project, target, detail }) => {
  const id = textOf(detail.conversation) ?? textOf(target);
  return id === null ? 'a conversation' : linkTo(project, `/conversations/${id}`, 'a conversation');
};

const erasure: About = ({ project, detail }) => {
  const id = textOf(detail.erasure);
  return id === null ? 'an end user' : html`an end user, with ${linkTo(project, `/erase/${id}`, 'this receipt')}`;
};

const project: About = ({ project: slug, detail }) => {
  const name = textOf(detail.name) ?? textOf(detail.project) ?? slug;
  const path = slug ?? textOf(detail.project);
  return html`the project ${path === null ? html`<strong>${name ?? ''}</strong>` : linkTo(path, '', name ?? path)}`;
};

const rules: About = ({ project: slug }) => linkTo(slug, '/rules', 'the content rules');

const memorySettings: About = ({ project: slug }) => linkTo(slug, '/settings', 'the memory settings');

const model: About = ({ target, detail }, { isAdmin }) => {
  const id = textOf(detail.model) ?? textOf(target);
  if (id === null) return 'a model';
  return isAdmin ? html`<a href="/console/admin/prices/model?${new URLSearchParams({ id })}">${id}</a>` : html`<code>${id}</code>`;
};

const token: About = ({ detail }) => {
  const name = textOf(detail.name);
  return name === null ? 'a personal token' : html`the personal token <strong>${name}</strong>`;
};

const sentences: Readonly<Record<string, Sentence>> = {
  'key.issue': { did: 'issued', todo: 'issue', about: key },
  'key.change': { did: 'changed', todo: 'change', about: key },
  'key.rotate': { did: 'rotated', todo: 'rotate', about: rotatedKey },
  'key.revoke': { did: 'revoked', todo: 'revoke', about: key },
  'member.add': { did: 'added', todo: 'add', about: withRole('as') },
  'member.change': { did: 'made', todo: 'make', about: newRole },
  'member.remove': { did: 'removed', todo: 'remove', about: removedMember },
  'member.restore': { did: 'brought back', todo: 'bring back', about: withRole('as') },
  'person.create': { did: 'created an account for', todo: 'create an account for', about: person },
  'person.change': { did: 'changed the account of', todo: 'change the account of', about: person },
  'person.confirm': { did: 'confirmed the address of', todo: 'confirm the address of', about: person },
  'person.delete': { did: 'deleted the account of', todo: 'delete the account of', about: person },
  'person.sign_in_link': { did: 'created a sign-in link for', todo: 'create a sign-in link for', about: person },
  'person.display': { did: 'changed their theme or time zone', todo: 'change their theme or time zone' },
  'person.rename': { did: 'changed their own name', todo: 'change their own name' },
  'person.password': { did: 'set a new password', todo: 'set a new password' },
  'session.start': { did: 'signed in', todo: 'sign in' },
  'session.end': { did: 'signed out', todo: 'sign out' },
  'session.revoke': { did: 'ended a session', todo: 'end a session', about: sessionOf },
  'session.revoke_all': { did: 'ended all sessions of', todo: 'end all sessions of', about: person },
  'session.revoke_others': { did: 'ended all their other sessions', todo: 'end all their other sessions' },
  'token.create': { did: 'created', todo: 'create', about: token },
  'token.revoke': { did: 'revoked', todo: 'revoke', about: token },
  'application.change': { did: 'changed the settings of', todo: 'change the settings of', about: application },
  'application.reset': { did: 'reset the settings of', todo: 'reset the settings of', about: application },
  'project.create': { did: 'created', todo: 'create', about: project },
  'project.change': { did: 'changed the settings of', todo: 'change the settings of', about: project },
  'rules.change': { did: 'changed', todo: 'change', about: rules },
  'memory.update': { did: 'changed', todo: 'change', about: memorySettings },
  'memory.cancel_deletion': {
    did: 'cancelled the planned deletion of conversations',
    todo: 'cancel the planned deletion of conversations',
  },
  'memory.export': { did: 'exported', todo: 'export', about: exportedMemory },
  'memory.import': { did: 'imported memory', todo: 'import memory' },
  'memory_item.write': { did: 'wrote', todo: 'write', about: memory },
  'memory_item.correct': { did: 'corrected', todo: 'correct', about: correctedMemory },
  'memory_item.remove': { did: 'removed', todo: 'remove', about: memory },
  'memory_item.restore': { did: 'restored', todo: 'restore', about: memory },
  'memory_item.pin': { did: 'pinned', todo: 'pin', about: memory },
  'memory_item.unpin': { did: 'unpinned', todo: 'unpin', about: memory },
  'memory_item.confirm': { did: 'confirmed', todo: 'confirm', about: memory },
  'conversation.remember': { did: 'asked memory to learn from', todo: 'have memory learn from', about: conversation },
  'batch.replay': { did: 'replayed', todo: 'replay', about: batch },
  'batch.replay_all': { did: 'replayed', todo: 'replay', about: batches },
  'batch.stop': { did: 'stopped', todo: 'stop', about: batch },
  'subject.erase': { did: 'erased', todo: 'erase', about: erasure },
  'prices.import': { did: 'imported prices', todo: 'import prices', about: importedPrices },
  'prices.remove': { did: 'removed the imported price of', todo: 'remove the imported price of', about: model },
  'catalog.import': { did: 'imported prices', todo: 'import prices' },
  'usage.reprice': { did: 'corrected the cost of stored calls', todo: 'correct the cost of stored calls' },
  'leases.release': { did: 'released the quota of a process that is gone', todo: 'release the quota of a process' },
  'playground.run': { did: 'sent a prompt in the playground', todo: 'send a prompt in the playground' },
};

export const describedActions: readonly string[] = Object.keys(sentences);

/**
 * Completes a sentence that starts with a person's name. Actions of newer gateway versions are unknown, so only their
 * name is quoted.
 */
export function describeAction(entry: AuditEntry, view: SentenceView): Html {
  const { action, outcome, detail } = entry;
  const sentence = Object.hasOwn(sentences, action) ? sentences[action] : undefined;
  if (!sentence) return html`made the change <code>${action}</code>${entry.target === null ? '' : html` to <code>${entry.target}</code>`}`;
  const { did, todo, about } = sentence;
  const what = about?.(entry, view) ?? '';
  const object = what === '' ? '' : html` ${what}`;
  if (outcome !== 'ok') return html`tried to ${todo}${object}`;
  if (detail.repeated === true) return html`sent the form for ${key(entry, view)} again, which issued no second key`;
  return html`${did}${object}`;
}

export function peopleOf({ action, target, detail }: AuditEntry): string[] {
  const isAboutPerson = /^(?:member|person)\./.test(action);
  return [detail.person_id, isAboutPerson ? target : null].filter((id): id is string => typeof id === 'string' && uuid.test(id));
}

export function memoriesOf({ action, target, detail }: AuditEntry): string[] {
  if (!action.startsWith('memory_item.')) return [];
  return [detail.memory, detail.corrects, target].filter((id): id is string => typeof id === 'string' && uuid.test(id.toLowerCase()));
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function sessionOf(entry: AuditEntry, view: SentenceView): Html | string {
  return typeof entry.detail.person_id === 'string' ? html`of ${person(entry, view)}` : '';
}

function removedMember(entry: AuditEntry, view: SentenceView): Html {
  const { role } = entry.detail;
  const former = isChange(role) ? role.from : role;
  return html`${person(entry, view)}${typeof former === 'string' ? `, who was ${withArticle(former)},` : ''} from the project`;
}

function exportedMemory({ detail }: AuditEntry): string {
  return typeof detail.subject_sha256 === 'string' ? 'what memory knows about one end user' : 'the memory of the project';
}

function importedPrices({ detail }: AuditEntry): string {
  const counts = [
    [detail.added, 'added'],
    [detail.changed, 'changed'],
  ].flatMap(([models, what]) => (Array.isArray(models) ? [`${formatCount(models.length)} ${String(what)}`] : []));
  return counts.length === 0 ? '' : `(${counts.join(', ')})`;
}

function linkTo(slug: string | null, path: string, label: Html | string): Html {
  return slug === null ? html`<strong>${label}</strong>` : html`<a href="/console/p/${slug}${path}">${label}</a>`;
}

function withArticle(role: unknown): string {
  return role === 'owner' ? 'an owner' : role === 'member' ? 'a member' : String(role);
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

export function isChange(value: unknown): value is { readonly from: unknown; readonly to: unknown } {
  return isObject(value) && Object.keys(value).sort().join() === 'from,to';
}
