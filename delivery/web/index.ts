/** Models and data that update themselves, from a repository of signed releases. */
export { type Code, DeliveryError } from "./errors.js";
export { CacheStore, MemoryStore, type Store } from "./store.js";
export { Repository } from "./trust.js";
export { PALM_FORMAT, type UpdateOptions, Updates, VERSION } from "./updates.js";
