/** Everything that pages are made of; docs/architecture/console.md shows how. */
export * from './charts.ts';
export * from './figures.ts';
export * from './form.ts';
export * from './navigation.ts';
export * from './paging.ts';
export * from './table.ts';
export * from './values.ts';
