#!/usr/bin/env node
/** `gateway <command> …` is the service's command line. */
import { runMain } from './launch.js';

await runMain(process.argv.slice(2));
