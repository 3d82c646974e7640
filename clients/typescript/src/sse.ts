import { UnexpectedAnswer } from "./errors.js";

const LINE_END = /\r\n|\n|\r/;
const UNSENDABLE = /[\0-\x08\n-\x1f\x7f]/; // No header can carry it: such an id is passed over, as the standard has it for NUL.
const LARGEST = 2 ** 24; // In characters: of a message. An event has far less.

/** What was sent, and the id by which the stream goes on after it, undefined where there is none. `data` is empty where the
 * stream says only that. */
export interface Message {
  readonly data: string;
  readonly lastId: string | undefined;
}

/** Makes messages of one answer's bytes: Server-Sent Events (WHATWG HTML §9.2). What is cut off at its end is no message. */
export class Parser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #afterReturn = false;
  #data: string[] = [];
  /** Of the lines of data. */
  #size = 0;
  #lastId: string | undefined;

  /** The messages that end in this part. Throws `UnexpectedAnswer` where one becomes too large. */
  *feed(part: Uint8Array): Generator<Message, undefined> {
    let text = this.#decoder.decode(part, { stream: true });
    if (!text) return;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterReturn = text.endsWith("\r");
    const lines = (this.#rest + text).split(LINE_END);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line) {
        this.#field(line);
      } else {
        yield { data: this.#data.join("\n"), lastId: this.#lastId };
        this.#data = [];
        this.#size = 0;
      }
    }
    if (this.#size + this.#rest.length > LARGEST) throw new UnexpectedAnswer("a message of the stream is larger than 16 MiB");
  }

  #field(line: string): void {
    const [, name, value = ""] = /^([^:]*)(?:: ?([^]*))?$/.exec(line) ?? [];
    if (name === "data") {
      this.#data.push(value);
      this.#size += line.length;
    } else if (name === "id" && !UNSENDABLE.test(value)) this.#lastId = value.replace(/^[\t ]+|[\t ]+$/g, "");
  }
}
