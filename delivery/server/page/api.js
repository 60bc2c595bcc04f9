// Talking to the server. The token stays in this tab and is gone when it is closed.

const TOKEN = "palmkit-token";

export class Failure extends Error {
  constructor(status, content) {
    super(content.error || `the server answered ${status}`);
    this.status = status;
    this.content = content;
  }
}

export const token = () => sessionStorage.getItem(TOKEN);

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(new URL(`../v1/admin/${path}`, document.baseURI), {
      ...options,
      headers: { ...options.headers, Authorization: `Bearer ${token()}` },
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(20000),
    });
  } catch (error) {
    throw new Failure(0, { error: "the server cannot be reached" });
  }
  let content = {};
  try {
    content = await response.json();
  } catch (error) {
    if (response.ok) throw new Failure(response.status, { error: "the answer is not what was expected" });
  }
  if (!response.ok) throw new Failure(response.status, content);
  return content;
}

export const readState = (days) => ask(`state?days=${days}`, { method: "GET" });

export const change = (action, body) =>
  ask(action, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
