import { z } from 'zod';
import { memberInput, newPersonInput, personChange, signInLinkInput } from '../../../people/person-input.ts';
import { personalTokenInput } from '../../../people/personal-tokens.ts';
import { count, id, listSchema, text, time } from '../../openapi/schemas/primitives.ts';

export const peopleRequests = {
  PersonBody: newPersonInput.describe('A new person.'),
  PersonChangeBody: personChange.describe('Omitted members keep their values.'),
  SignInLinkBody: signInLinkInput.meta({
    description: 'The person who gets the link.',
    anyOf: [{ required: ['email'] }, { required: ['admin'], properties: { admin: { const: true } } }],
  }),
  PersonalTokenBody: personalTokenInput.describe('A new personal token.'),
  MemberBody: memberInput.describe('The role in the project.'),
};

const personFields = {
  id,
  email: z.string(),
  name: z.string(),
  admin: z.boolean().describe('whether the person is a deployment admin'),
  has_password: z.boolean(),
  has_oidc: z.boolean().describe('whether the person has signed in with the identity provider'),
  only_project: text.describe('the only project in which an unconfirmed account is valid, or null if the account is confirmed'),
  disabled_at: time.nullable(),
  created_at: time,
};
const person = z.looseObject(personFields);

const link = { sign_in_url: z.string().describe('a link that works once'), sign_in_url_expires_at: time };

const member = z.looseObject({
  id: id.describe('id of the person'),
  email: z.string(),
  name: z.string(),
  role: z.enum(['owner', 'member']),
  disabled: z.boolean(),
  confirmed: z.boolean().describe('false if an owner added the address, so that the account is only valid in this project'),
  created_at: time,
});

const session = z.looseObject({ id, user_agent: text, created_at: time, last_seen_at: time, expires_at: time });

const tokenFields = {
  id,
  prefix: z.string(),
  name: z.string(),
  scopes: z.array(z.string()),
  created_at: time,
  expires_at: time,
  last_used_at: time.nullable(),
};
const personalToken = z.looseObject(tokenFields);

const auditEntry = z.looseObject({
  id: z.int(),
  at: time,
  actor: z.enum(['person', 'personal_token', 'admin_token']),
  person_id: id.nullable(),
  email: text.describe('null for the admin token, and if the person was deleted'),
  project: text.describe('slug of the project, or null for changes to the deployment'),
  action: z.string(),
  target: text.describe('id, slug or prefix of what was changed'),
  outcome: z.enum(['ok', 'refused', 'failed']).nullable().describe('null if the change is in progress or was interrupted'),
  detail: z.record(z.string(), z.unknown()),
});

export const peopleResponses = {
  Person: person,
  PersonList: listSchema(person),
  NewPerson: z.looseObject({ ...personFields, sign_in_url: link.sign_in_url.optional(), sign_in_url_expires_at: time.optional() }),
  DeletedPerson: z.looseObject({ ...personFields, deleted: z.literal(true) }),
  SignInLink: z.looseObject({ email: text, ...link }),
  SessionList: listSchema(session),
  RevokedSessions: z.looseObject({ revoked: count }),
  PersonalToken: personalToken,
  PersonalTokenList: listSchema(personalToken),
  NewPersonalToken: z.looseObject({ token: z.string().describe('the token, which is shown only once'), ...tokenFields }),
  Member: member,
  MemberList: listSchema(member),
  AuditEntryList: listSchema(auditEntry),
};
