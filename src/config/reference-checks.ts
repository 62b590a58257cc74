/** Checks the providers that gateway.yaml refers to. */
import type { Route, Tiers } from '../core/call.ts';
import { ownValue } from '../core/own-value.ts';
import { getProviderName } from './catalog.ts';
import type { Config } from './config.ts';
import type { FileValues } from './file-schema.ts';
import type { AddError, Path } from './yaml-file.ts';

type MediaSections = Pick<Config, 'providers' | 'defaults' | 'imageTiers' | 'speechTiers' | 'transcriptionTiers'>;

/** Reports each model, tier and default whose provider doesn't exist. */
export function checkNames(values: FileValues, isProvider: (name: string) => boolean, addError: AddError): void {
  const check = (path: Path, provider: string): void => {
    if (!isProvider(provider)) addError(path, `there is no provider ${provider}`);
  };
  for (const id of Object.keys(values.models ?? {})) check(['models', id], getProviderName(id));
  for (const section of ['tiers', 'image_tiers', 'speech_tiers', 'transcription_tiers'] as const) {
    const chains: Tiers = values[section] ?? {};
    for (const [tier, chain] of Object.entries(chains)) {
      for (const [index, id] of chain.entries()) check([section, tier, index], getProviderName(id));
    }
  }
  for (const [tier, { model }] of Object.entries(values.canaries ?? {})) check(['canaries', tier, 'model'], getProviderName(model));
  for (const key of ['image_provider', 'speech_provider', 'transcription_provider', 'video_provider'] as const) {
    const name = values.defaults?.[key];
    if (name !== undefined) check(['defaults', key], name);
  }
}

/** Checks the default providers and the tiers for media. Each provider has to serve the route that it's used for. */
export function checkMedia({ providers, defaults, imageTiers, speechTiers, transcriptionTiers }: MediaSections, addError: AddError): void {
  const check = (path: Path, name: string | null, served: Route): void => {
    const provider = name === null ? undefined : ownValue(providers, name);
    if (provider && !provider.serves.includes(served)) addError(path, `the provider ${provider.name} does not serve ${served}`);
  };
  check(['defaults', 'image_provider'], defaults.imageProvider, 'images');
  check(['defaults', 'speech_provider'], defaults.speechProvider, 'speech');
  check(['defaults', 'transcription_provider'], defaults.transcriptionProvider, 'transcriptions');
  check(['defaults', 'video_provider'], defaults.videoProvider, 'video');
  for (const [section, tiers, served] of [
    ['image_tiers', imageTiers, 'images'],
    ['speech_tiers', speechTiers, 'speech'],
    ['transcription_tiers', transcriptionTiers, 'transcriptions'],
  ] as const) {
    for (const [tier, chain] of Object.entries(tiers))
      for (const [index, id] of chain.entries()) check([section, tier, index], getProviderName(id), served);
  }
}
