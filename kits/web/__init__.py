"""PalmKit in browsers: the kits in TypeScript, and a server of pages that use them."""
