/** What is to be done at the end of a signal: by one listener for all of it, for Node warns of more than ten. */
class Ends extends Set<() => void> {
  handleEvent(): void {
    for (const end of this) end();
  }
}

const known = new WeakMap<AbortSignal, Ends>();

/** Calls `end` at the end of a signal, unless what this gives was called before. */
export function atEnd(signal: AbortSignal | undefined, end: () => void): () => void {
  if (!signal) return () => undefined;
  const ends = known.get(signal) ?? new Ends();
  known.set(signal, ends.add(end));
  signal.addEventListener("abort", ends); // Once, however often it is added.
  return () => {
    ends.delete(end);
    if (!ends.size) signal.removeEventListener("abort", ends);
  };
}
