import { isIP } from 'node:net';
import { metadataHosts } from '../core/internal-hosts.ts';
import { findLocalModel } from '../core/local-model.ts';
import type { Config } from './config.ts';
import type { Path } from './yaml-file.ts';

type Checked = Pick<Config, 'providers' | 'models' | 'tiers' | 'canaries' | 'imageTiers' | 'speechTiers' | 'transcriptionTiers'>;

export function findWarnings(config: Checked): { path: Path; message: string }[] {
  const { providers, tiers, imageTiers, speechTiers, transcriptionTiers } = config;
  const sections = { tiers, image_tiers: imageTiers, speech_tiers: speechTiers, transcription_tiers: transcriptionTiers };
  return [
    ...Object.values(providers)
      .filter(({ baseUrl }) => isLocalService(baseUrl))
      .map(({ name }) => ({
        path: ['providers', name, 'base_url'],
        message: 'is a link-local address or a cloud metadata service, which cannot be a vendor; check the address',
      })),
    ...Object.values(providers).flatMap(({ name, requests }) =>
      Object.keys(requests.modelNames)
        .filter((model) => !isUsed(config, `${name}/${model}`))
        .map((model) => ({
          path: ['providers', name, 'model_names', model],
          message: `no tier uses ${name}/${model} and it has no price, so this entry may have no effect; check the name of the model`,
        })),
    ),
    ...Object.entries(config.canaries)
      .filter(([, { model }]) => !hasPrice(config, model))
      .map(([tier, { model }]) => ({ path: ['canaries', tier, 'model'], message: unpriced(model) })),
    ...Object.entries(sections).flatMap(([section, chains]) =>
      Object.entries(chains).flatMap(([tier, chain]) =>
        [...chain.entries()]
          .filter(([, model]) => !hasPrice(config, model))
          .map(([index, model]) => ({
            path: [section, tier, index],
            message: unpriced(model),
          })),
      ),
    ),
  ];
}

function isUsed({ models, tiers, canaries, imageTiers, speechTiers, transcriptionTiers }: Checked, id: string): boolean {
  const chains = [tiers, imageTiers, speechTiers, transcriptionTiers].flatMap((section) => Object.values(section));
  return (
    Object.hasOwn(models, id) || chains.some((chain) => chain.includes(id)) || Object.values(canaries).some(({ model }) => model === id)
  );
}

function unpriced(model: string): string {
  return `${model} has no price; unless you import one, the cost of its calls is unknown, and calls with a cost ceiling skip it`;
}

function hasPrice({ models }: Checked, id: string): boolean {
  // A local model has no row until the embedder starts. It's free, so don't warn about a missing price.
  if (findLocalModel(id) !== null) return true;
  const row = Object.hasOwn(models, id) ? models[id] : undefined;
  if (!row) return false;
  const { price, perImageNanos, perMillionCharactersNanos, perSecondNanos, perSearchNanos } = row;
  return [price, perImageNanos, perMillionCharactersNanos, perSecondNanos, perSearchNanos].some((amount) => amount !== null);
}

/**
 * Matches 169.254.0.0/16 and fe80::/10, including IPv4 addresses that are mapped to IPv6. `URL` has already normalized
 * other notations.
 */
function isLocalService(baseUrl: string): boolean {
  if (!URL.canParse(baseUrl)) return false;
  const host = new URL(baseUrl).hostname.replace(/\.$/, '');
  const address = host.replace(/^\[|\]$/g, '');
  const isLinkLocal =
    isIP(address) === 4 ? address.startsWith('169.254.') : isIP(address) === 6 && /^(?:fe[89ab]|::ffff:a9fe:)/.test(address);
  return isLinkLocal || metadataHosts.includes(host);
}
