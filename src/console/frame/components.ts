/** The building blocks of all pages. docs/architecture/console.md explains how to use them. */
export * from './charts.ts';
export * from './figures.ts';
export * from './form.ts';
export * from './navigation.ts';
export * from './paging.ts';
export * from './table.ts';
export * from './values.ts';
