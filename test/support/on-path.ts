import { delimiter } from 'node:path';

/** Returns the folders in the environment variable `PATH`. */
export function foldersOnPath(): string[] {
  return (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
}
