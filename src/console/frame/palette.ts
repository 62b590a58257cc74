/** The button that opens the command palette. Without JavaScript it's a link to the search page. */
import { defineAsset } from './assets.ts';
import { type Html, html } from './html.ts';

/** These paths are relative to the project. The command palette sends its requests to `findResultsPath`. */
export const findPath = '/find';
export const findResultsPath = `${findPath}/results`;

export const paletteScript = defineAsset(new URL('./palette.js', import.meta.url));

export function searchButton(slug: string): Html {
  const path = `/console/p/${slug}`;
  return html`<a class="button search-button" href="${path}${findPath}" data-palette="${path}${findResultsPath}" aria-keyshortcuts="Control+K">Search <kbd aria-hidden="true">Ctrl K</kbd></a>`;
}
