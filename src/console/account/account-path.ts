export const accountPath = '/console/account';
