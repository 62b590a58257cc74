/** What the descriptions of provision routes have in common. */
import { databaseCodes } from '../../openapi/contract/operation-spec.ts';

export const provisionRead = { tag: 'provision', auth: 'admin', codes: ['missing_key', 'invalid_key', ...databaseCodes] } as const;
export const projectRead = { ...provisionRead, codes: [...provisionRead.codes, 'not_found', 'bad_request'], plain: [400] } as const;
export const projectWrite = { ...projectRead, plain: [400, 413, 415] } as const;
export const team = '/provision/teams/{project}';
