import { UnexpectedAnswer } from "./errors.js";

const LINE_END = /\r\n|\n|\r/;
const UNSENDABLE = /[\0-\x08\n-\x1f\x7f]/; // No header can carry these: an id with one is ignored, as the standard says for NUL.
const LARGEST = 2 ** 24; // The largest message, in characters. Events are far smaller.

/** The data of a message, and the id to resume after, if there is one. `data` is empty if the stream sent only an id. */
export interface Message {
  readonly data: string;
  readonly lastId: string | undefined;
}

/** Parses the bytes of one response into messages: Server-Sent Events (WHATWG HTML §9.2). An incomplete message at the end is
 * dropped. */
export class Parser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #afterReturn = false;
  #data: string[] = [];
  /** The total size of the data lines. */
  #size = 0;
  #lastId: string | undefined;

  /** The messages that end in this part. Throws `UnexpectedAnswer` if one becomes too large. */
  *feed(part: Uint8Array): Generator<Message, undefined> {
    let text = this.#decoder.decode(part, { stream: true });
    if (!text) return;
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterReturn = text.endsWith("\r");
    const lines = text.split(LINE_END);
    lines[0] = this.#rest + lines[0]; // What came before is looked through once, however small the parts are.
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
    } else if (name === "id" && !UNSENDABLE.test(value)) this.#lastId = value.replace(/^[\t ]+|(?<![\t ])[\t ]+$/g, "");
  }
}
