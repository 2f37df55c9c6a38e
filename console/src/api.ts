/** Requests to the broker. All requests go through this module. */

import { type Session, session } from "./state";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    reason: string,
  ) {
    super(reason);
  }
}

interface Options {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function send(method: string, path: string, options: Options): Promise<Response> {
  // With this header a 401 does not open the browser's own password dialog.
  const headers: Record<string, string> = { "x-requested-with": "headrace", ...options.headers };
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (method !== "GET") headers["x-csrf-token"] = session.value?.csrf_token ?? "";
  if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) init.signal = options.signal;
  try {
    return await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The broker is unreachable.");
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  let code = String(response.status);
  let reason = response.statusText || "refused";
  try {
    const body = (await response.json()) as { error?: string; reason?: unknown };
    code = body.error ?? code;
    reason = typeof body.reason === "string" ? body.reason : JSON.stringify(body.reason ?? reason);
  } catch {
    // not JSON: the status is all there is
  }
  return new ApiError(response.status, code, reason);
}

async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  const response = await send(method, path, options);
  if (response.ok) return response;
  const error = await errorOf(response);
  // "not_authorised" is a missing permission, "not_authorized" an expired session.
  if (response.status === 401 && error.code === "not_authorized") session.value = null;
  throw error;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request("GET", path, signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function put(path: string, body: unknown): Promise<void> {
  await request("PUT", path, { body });
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await request("POST", path, { body });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export async function del(path: string, headers: Record<string, string> = {}): Promise<void> {
  await request("DELETE", path, { headers });
}

// -- login ----------------------------------------------------------------------------------------

export async function resume(): Promise<void> {
  try {
    session.value = await get<Session>("/api/session");
  } catch {
    session.value = null;
  }
}

export async function login(username: string, password: string): Promise<void> {
  session.value = await post<Session>("/api/login", { username, password });
}

export async function logout(): Promise<void> {
  await del("/api/login");
  session.value = null;
}
