/**
 * Bodies of the provisioning routes: the schemas by which the rooms read them. Rows of the catalog are read by the configuration, which this
 * room may not know; a property test holds what is said of them here and its reading together.
 */
import { z } from 'zod';
import { keyInput, rotateInput } from '../../keys/key-input.ts';
import { applicationInput } from '../../projects/application-settings.ts';
import { projectInput } from '../../projects/project-settings.ts';

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s]+\/\S+$/);
<<<<<<< HEAD
const name = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const tiers = z
  .record(z.string().regex(/^(?!auto$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/), z.array(modelId).max(100))
  .describe('chains of models by tier; `auto` is no tier');
const window = z.enum(['day', 'month', 'total']);
const count = z.int().min(0).nullable();
const usd = z.number().min(0).max(9_000_000).nullable().describe('USD');

const projectBody = z
  .strictObject({
    name: z.string().trim().min(1).max(200),
    providers: z.array(z.string().regex(name)).max(200).nullable().describe('null for all'),
    tiers,
    image_tiers: tiers,
    speech_tiers: tiers,
    retired: z
      .array(
        z
          .string()
          .max(300)
          .regex(/^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,62}|[^/\s]+\/\S+)$/),
      )
      .max(1_000)
      .describe('models and providers that are called last'),
    catalog_fill: z.boolean().nullable().describe('null: as the configuration file says'),
    may_call: z.boolean(),
    monthly_cap: usd,
    cache: z.strictObject({ enabled: z.boolean(), ttl_seconds: z.int().min(1).max(86_400) }).partial(),
  })
  .partial()
  .nullable()
  .describe('What is left out stays as it is.');

const keyBody = z
  .strictObject({
    name: z.string().trim().min(1).max(200),
    models: z.array(z.string().min(1).max(300)).max(1_000).nullable().optional().describe('models and tiers; null for all'),
    ceilings: z.strictObject({ calls: count, cost: usd, rpm: count, tpm: count }).partial().optional(),
    windows: z.strictObject({ calls: window, cost: window }).partial().optional().describe('only beside the ceiling of that name'),
    expires_at: z.iso.datetime({ offset: true }).nullable().optional().describe('a time that is to come'),
  })
  .describe('A new virtual key.');

const rotateBody = z
  .strictObject({ grace_seconds: z.int().min(0).max(31_536_000).optional().describe('for which the old key stays valid') })
  .nullable()
  .describe('Without it the old key ends at once.');

const applicationBody = z
  .strictObject({
    ceilings: z.strictObject({ calls: count, cost: usd }).partial(),
    windows: z.strictObject({ calls: window, cost: window }).partial(),
    tiers,
    image_tiers: tiers,
    speech_tiers: tiers,
  })
  .partial()
  .nullable()
  .describe('What is left out stays as it is.');
=======
>>>>>>> 02464b2 (Provisioning bodies are described by the schemas that read them; the interface description is written from any Node)

const placeAndAction = { place: z.enum(['input', 'output']), action: z.enum(['block', 'observe']) };
const rulesBody = z
  .strictObject({
    rules: z
      .array(
        z.union([
          z.strictObject({ class: z.enum(['credential', 'card_number', 'email', 'phone', 'iban']), ...placeAndAction }),
          z.strictObject({
            class: z.literal('expression'),
            ...placeAndAction,
            expression: z.string().min(1).max(500).describe('in the syntax of RE2; must not match the empty text'),
          }),
        ]),
      )
      .max(50),
  })
  .describe('All rules of the project.');

const catalogBody = z
  .strictObject({ models: z.record(modelId, z.record(z.string(), z.unknown()).nullable()) })
  .describe('Rows in the form of `models` of gateway.yaml, by `<provider>/<model>`; null takes an imported row away.');

const partial = 'What is left out stays as it is.';

export const provisionBodies = {
<<<<<<< HEAD
  project: projectBody,
  key: keyBody,
  rotate: rotateBody,
  application: applicationBody,
  rules: rulesBody,
=======
  project: projectInput.nullable().describe(partial),
  key: keyInput.describe('A new virtual key.'),
  rotate: rotateInput.nullable().describe('Without it the old key ends at once.'),
  application: applicationInput.nullable().describe(partial),
>>>>>>> 02464b2 (Provisioning bodies are described by the schemas that read them; the interface description is written from any Node)
  catalog: catalogBody,
};
