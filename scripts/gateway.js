#!/usr/bin/env node
/** `gateway <command> …`: the command line of the service. */
import { runMain } from './launch.js';

await runMain(process.argv.slice(2));
