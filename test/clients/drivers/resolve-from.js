/** Preloaded into the drivers: their packages are those of the folder CLIENT_PACKAGES, which need not be the clone. */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const parentURL = pathToFileURL(`${process.env['CLIENT_PACKAGES']}/driver.js`).href;
const drivers = new URL('.', import.meta.url).href;
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, context.parentURL?.startsWith(drivers) && !specifier.startsWith('.') ? { ...context, parentURL } : context),
});
