/** What a verified JSON Web Token says: who it is about, and until when it holds.
 *
 * `subject` is the user's id as a text, `userId` as a number. `name` and `role` are those of a login token, and undefined in
 * others. `amr` (RFC 8176, such as `pwd` and `otp`) and `acr` (`2` for two factors, `1` for one) are those of an ID token.
 * `all` has every claim as it came.
 */
export interface Claims {
  readonly subject: string;
  readonly userId: number;
  readonly expiresAt: Date;
  readonly name: string | undefined;
  readonly role: string | undefined;
  readonly amr: readonly string[];
  readonly acr: string | undefined;
  readonly all: Readonly<Record<string, unknown>>;
}
