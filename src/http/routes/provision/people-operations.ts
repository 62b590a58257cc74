import type { OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { provisionRead } from './operation-defaults.ts';

const read = { ...provisionRead, codes: [...provisionRead.codes, 'bad_request'] } as const;
const readOne = { ...read, codes: [...read.codes, 'not_found'], plain: [400] } as const;
const write = { ...readOne, plain: [400, 413, 415] } as const;
const create = { ...write, codes: [...write.codes, 'conflict'] } as const;
const person = '/provision/people/{email}';
const members = '/provision/teams/{project}/members';

export const peopleOperations: OperationSpecs = {
  'get /provision/people': {
    ...read,
    summary: 'Lists people by e-mail address',
    details: 'To get the next page, send the last address in `after`.',
    parameters: ['limit', 'after_email', 'unconfirmed_people'],
    responses: { 200: 'PersonList' },
  },
  'post /provision/people': {
    ...create,
    summary: 'Creates a person',
    details: 'If you do not set a password, the response contains a link with which the person can sign in once.',
    body: { name: 'PersonBody', example: { email: 'ada@example.org', name: 'Ada' } },
    responses: { 201: 'NewPerson' },
  },
  [`get ${person}`]: {
    ...readOne,
    summary: 'Gets a person',
    details: 'The case of the address does not matter.',
    responses: { 200: 'Person' },
  },
  [`patch ${person}`]: {
    ...write,
    summary: 'Renames, disables or enables a person, or changes whether they are a deployment admin',
    details: 'Omitted members keep their values. If you disable a person, their sessions end.',
    body: { name: 'PersonChangeBody' },
    responses: { 200: 'Person' },
  },
  [`delete ${person}`]: {
    ...write,
    summary: 'Deletes a person with their sessions, links and memberships',
    details: 'Entries in the audit log keep the id of the person.',
    responses: { 200: 'DeletedPerson' },
  },
  [`get ${person}/sessions`]: {
    ...readOne,
    summary: 'Lists the sessions of a person',
    details: 'Each session belongs to a browser that is signed in.',
    responses: { 200: 'SessionList' },
  },
  [`delete ${person}/sessions`]: {
    ...write,
    summary: 'Ends all sessions of a person',
    details: 'The person has to sign in again.',
    responses: { 200: 'RevokedSessions' },
  },
  [`delete ${person}/sessions/{id}`]: {
    ...write,
    summary: 'Ends a session',
    details: 'Other sessions of the person continue.',
    parameters: ['session'],
    responses: { 200: 'RevokedSessions' },
  },
  [`get ${person}/tokens`]: {
    ...readOne,
    summary: 'Lists the personal tokens of a person, without their secrets',
    details: 'Revoked tokens are not listed.',
    responses: { 200: 'PersonalTokenList' },
  },
  [`post ${person}/tokens`]: {
    ...create,
    summary: 'Creates a personal token with which a person can use MCP',
    details: 'Only this response contains the token itself.',
    body: { name: 'PersonalTokenBody' },
    responses: { 201: 'NewPersonalToken' },
  },
  [`delete ${person}/tokens/{id}`]: {
    ...write,
    summary: 'Revokes a personal token',
    details: 'The token is refused from the next request on.',
    parameters: ['personal_token'],
    responses: { 200: 'PersonalToken' },
  },
  'post /provision/sign-in-links': {
    ...create,
    summary: 'Creates a one-time sign-in link',
    details: 'The link is valid for 24 hours.',
    body: { name: 'SignInLinkBody', example: { email: 'ada@example.org' } },
    responses: { 201: 'SignInLink' },
  },
  [`get ${members}`]: {
    ...readOne,
    summary: 'Lists the members of a project',
    details: 'The list includes the role of each member.',
    responses: { 200: 'MemberList' },
  },
  [`get ${members}/{email}`]: {
    ...readOne,
    summary: 'Gets a member',
    details: 'If the person is not a member, the response is 404.',
    responses: { 200: 'Member' },
  },
  [`put ${members}/{email}`]: {
    ...create,
    summary: 'Adds a person to a project, or changes their role',
    details: 'A project always keeps at least one owner.',
    body: { name: 'MemberBody' },
    responses: { 200: 'Member' },
  },
  [`delete ${members}/{email}`]: {
    ...create,
    summary: 'Removes a member',
    details: 'A project always keeps at least one owner.',
    responses: { 200: 'Member' },
  },
  'get /provision/audit': {
    ...readOne,
    summary: 'Lists the audit log, newest first',
    details: 'There is an entry for each change that was made by a person or with the admin token.',
    parameters: ['limit', 'before_entry', 'audit_project', 'audit_person', 'audit_action', 'audit_from', 'audit_to'],
    responses: { 200: 'AuditEntryList' },
  },
};
