/** Operations of people, members and the audit log. */
import { databaseCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';

const read = { tag: 'provision', auth: 'admin', codes: ['missing_key', 'invalid_key', ...databaseCodes, 'bad_request'] } as const;
const readOne = { ...read, codes: [...read.codes, 'not_found'], plain: [400] } as const;
const write = { ...readOne, plain: [400, 413, 415] } as const;
const create = { ...write, codes: [...write.codes, 'conflict'] } as const;
const person = '/provision/people/{email}';
const members = '/provision/teams/{project}/members';

export const peopleOperations: OperationSpecs = {
  'get /provision/people': {
    ...read,
    summary: 'Lists people by e-mail address',
    parameters: ['limit', 'after_email'],
    responses: { 200: 'PersonList' },
  },
  'post /provision/people': { ...create, summary: 'Creates a person', body: { name: 'PersonBody' }, responses: { 201: 'NewPerson' } },
  [`get ${person}`]: { ...readOne, summary: 'Gets a person', parameters: ['email'], responses: { 200: 'Person' } },
  [`patch ${person}`]: {
    ...write,
    summary: 'Renames, disables or enables a person, or changes whether they are a deployment admin',
    parameters: ['email'],
    body: { name: 'PersonChangeBody' },
    responses: { 200: 'Person' },
  },
  [`delete ${person}`]: {
    ...write,
    summary: 'Deletes a person with their sessions, links and memberships',
    parameters: ['email'],
    responses: { 200: 'DeletedPerson' },
  },
  [`get ${person}/sessions`]: {
    ...readOne,
    summary: 'Lists the sessions of a person',
    parameters: ['email'],
    responses: { 200: 'SessionList' },
  },
  [`delete ${person}/sessions`]: {
    ...write,
    summary: 'Ends all sessions of a person',
    parameters: ['email'],
    responses: { 200: 'RevokedSessions' },
  },
  [`delete ${person}/sessions/{id}`]: {
    ...write,
    summary: 'Ends a session',
    parameters: ['email', 'session'],
    responses: { 200: 'RevokedSessions' },
  },
  [`get ${person}/tokens`]: {
    ...readOne,
    summary: 'Lists the personal tokens of a person, without their secrets',
    parameters: ['email'],
    responses: { 200: 'PersonalTokenList' },
  },
  [`post ${person}/tokens`]: {
    ...create,
    summary: 'Creates a personal token, with which a person uses MCP',
    parameters: ['email'],
    body: { name: 'PersonalTokenBody' },
    responses: { 201: 'NewPersonalToken' },
  },
  [`delete ${person}/tokens/{id}`]: {
    ...write,
    summary: 'Revokes a personal token',
    parameters: ['email', 'personal_token'],
    responses: { 200: 'PersonalToken' },
  },
  'post /provision/sign-in-links': {
    ...create,
    summary: 'Creates a one-time sign-in link',
    body: { name: 'SignInLinkBody' },
    responses: { 201: 'SignInLink' },
  },
  [`get ${members}`]: { ...readOne, summary: 'Lists the members of a project', parameters: ['project'], responses: { 200: 'MemberList' } },
  [`get ${members}/{email}`]: { ...readOne, summary: 'Gets a member', parameters: ['project', 'email'], responses: { 200: 'Member' } },
  [`put ${members}/{email}`]: {
    ...create,
    summary: 'Adds a person to a project, or changes their role',
    parameters: ['project', 'email'],
    body: { name: 'MemberBody' },
    responses: { 200: 'Member' },
  },
  [`delete ${members}/{email}`]: {
    ...create,
    summary: 'Removes a member',
    parameters: ['project', 'email'],
    responses: { 200: 'Member' },
  },
  'get /provision/audit': {
    ...readOne,
    summary: 'Lists the audit log, newest first',
    parameters: ['limit', 'before_entry', 'audit_project', 'audit_person', 'audit_action', 'audit_from', 'audit_to'],
    responses: { 200: 'AuditEntryList' },
  },
};
