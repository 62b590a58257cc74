/** The commands of the table for people: their sessions, tokens and memberships, sign-in links, and the audit log. */
import type { Command } from './command.ts';
import { formatAudit, formatMembers, formatPeople, formatSessions, formatSignInLink, formatTokens } from './format-people.ts';
import { createPerson } from './special-commands.ts';
import { formatRecord, toRows } from './table.ts';

const team = '/provision/teams/{project}';
const person = 'get /provision/people/{email}';
const emailArgument = { email: 'email' } as const;

export const peopleCommands: Readonly<Record<string, Command>> = {
  'people list': {
    summary: 'list people by e-mail address',
    options: ['limit', 'after', 'unconfirmed'],
    operations: ['get /provision/people'],
    format: (response) => formatPeople(toRows(response)),
  },
  'people create': {
    summary: 'create a person, or confirm one whom an owner added; without a password with a one-time sign-in link',
    args: emailArgument,
    options: ['name', 'admin', 'password-file'],
    operations: ['post /provision/people'],
    run: createPerson,
    format: formatRecord,
  },
  'people show': { summary: 'show a person', args: emailArgument, operations: [person], format: formatRecord },
  'people set': {
    summary: 'rename, disable or enable a person, or change whether they are a deployment admin',
    args: emailArgument,
    options: ['name', 'admin', 'disabled'],
    operations: ['patch /provision/people/{email}'],
    format: formatRecord,
  },
  'people delete': {
    summary: 'delete a person with their sessions, links and memberships',
    args: emailArgument,
    operations: ['delete /provision/people/{email}'],
    format: ({ email }) => `Deleted ${String(email)}.\n`,
  },

  'sessions list': {
    summary: 'list the sessions of a person',
    args: emailArgument,
    operations: [`${person}/sessions`],
    format: (response) => formatSessions(toRows(response)),
  },
  'sessions revoke': {
    summary: 'end a session of a person, or all of them',
    args: { email: 'email', id: 'session' },
    operations: ['delete /provision/people/{email}/sessions/{id}', 'delete /provision/people/{email}/sessions'],
    format: ({ revoked }) => `Ended ${String(revoked)} ${revoked === 1 ? 'session' : 'sessions'}.\n`,
  },

  'tokens list': {
    summary: 'list the personal tokens of a person',
    args: emailArgument,
    operations: [`${person}/tokens`],
    format: (response) => formatTokens(toRows(response)),
  },
  'tokens create': {
    summary: 'create a personal token, with which the person uses MCP',
    args: emailArgument,
    options: ['name', 'scopes', 'days'],
    operations: ['post /provision/people/{email}/tokens'],
    format: (response) => `${String(response.token)}\n\n${formatTokens([response])}\nKeep the token: it is shown this once.\n`,
  },
  'tokens revoke': {
    summary: 'revoke a personal token at once',
    args: { email: 'email', id: 'token' },
    operations: ['delete /provision/people/{email}/tokens/{id}'],
    format: (response) => formatTokens([response]),
  },

  'members list': {
    summary: 'list the members of a project',
    options: ['project'],
    operations: [`get ${team}/members`],
    format: (response) => formatMembers(toRows(response)),
  },
  'members show': {
    summary: 'show a member',
    args: emailArgument,
    options: ['project'],
    operations: [`get ${team}/members/{email}`],
    format: formatRecord,
  },
  'members set': {
    summary: 'add a person to a project, or change their role',
    args: emailArgument,
    options: ['project', 'role'],
    operations: [`put ${team}/members/{email}`],
    format: formatRecord,
  },
  'members remove': {
    summary: 'remove a member from a project',
    args: emailArgument,
    options: ['project'],
    operations: [`delete ${team}/members/{email}`],
    format: ({ email }) => `Removed ${String(email)}.\n`,
  },

  'sign-in-link': {
    summary: 'print a one-time link that signs a person in',
    options: ['email', 'admin'],
    operations: ['post /provision/sign-in-links'],
    format: formatSignInLink,
  },

  audit: {
    summary: 'list changes by people and with the admin token, newest first',
    options: ['project', 'person', 'action', 'from', 'to', 'limit', 'before'],
    operations: ['get /provision/audit'],
    format: (response) => formatAudit(toRows(response)),
  },
};
