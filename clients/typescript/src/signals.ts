/** The callbacks of a signal, called by one listener, since Node warns about more than ten listeners. */
class Ends extends Set<() => void> {
  handleEvent(): void {
    for (const end of this) end();
  }
}

const known = new WeakMap<AbortSignal, Ends>();

/** Calls `end` when the signal aborts. Returns a function that cancels that. */
export function atEnd(signal: AbortSignal | undefined, end: () => void): () => void {
  if (!signal) return () => undefined;
  const ends = known.get(signal) ?? new Ends();
  known.set(signal, ends.add(end));
  signal.addEventListener("abort", ends); // Adding it again has no effect.
  return () => {
    ends.delete(end);
    if (!ends.size) signal.removeEventListener("abort", ends);
  };
}
