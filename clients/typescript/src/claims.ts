/** The claims of a verified JSON Web Token: who it is about, and when it expires.
 *
 * `subject` is the user's id as text, `userId` as a number. `name` and `role` are set in login tokens and undefined in others.
 * `amr` (RFC 8176, such as `pwd` and `otp`) and `acr` (`2` for two factors, `1` for one) are set in ID tokens. `all` has every
 * claim, unchanged.
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
