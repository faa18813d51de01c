/**
 * @file ratelimit.h
 * @brief ratelimit: decides whether a unit of work may go ahead now, later or not at all.
 *
 * Generated from c-api/src; change it there.
 *
 * - `rl_x_new`, `rl_x_open` and `rl_policy_x` make a handle, `rl_x_free` ends it; freeing `NULL` is a no-op.
 * - Every function that can fail returns `rl_status`. Outputs are the last parameters, and stay as they were on
 *   failure; `rl_last_error()` then has the sentence. `NULL` where something is needed is such a failure.
 * - Otherwise a pointer must be valid for what its type says until the function returns. What the library keeps, it
 *   copies.
 * - A key is a pointer and a length: any bytes. Other texts end with a zero byte.
 * - Times are `uint64_t` microseconds where the name ends in `_us`, seconds in a `double` where it ends in `_s`.
 * - Handles may be used from any thread at the same time unless a comment says otherwise, and after `fork` by parent
 *   and child alike. Nobody may use a handle while it is freed, or afterwards.
 * - No panic, exception or signal leaves the library.
 */

#ifndef RATELIMIT_H
#define RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The memory that the text of a holder takes: 32 hexadecimal digits, and the zero byte that ends them.
 */
#define RL_HOLDER_LEN 33

/**
 * A wait that never ends: the cost is above what can ever pass. The `retry_after_us` of such a denial.
 */
#define RL_NEVER UINT64_MAX

/**
 * What came of a call. On anything but `RL_OK` the call's outputs are as they were before (`rl_allow_many` writes those
 * that are known), and `rl_last_error()` has a sentence about it. A denial is no error: it is `RL_OK` with `allowed`
 * false.
 */
typedef enum {
  /**
   * It worked.
   */
  RL_OK = 0,
  /**
   * An argument is out of its range, or `NULL` where something is needed. Nothing was asked or changed.
   */
  RL_ERR_INVALID_ARGUMENT,
  /**
   * Numbers or a name that make no policy.
   */
  RL_ERR_INVALID_POLICY,
  /**
   * A DSN that names no store.
   */
  RL_ERR_INVALID_STORE,
  /**
   * The store gave no usable answer within its time limit. A call that timed out may have been counted.
   */
  RL_ERR_STORE_UNAVAILABLE,
  /**
   * The wait needed is longer than the caller is ready to wait.
   */
  RL_ERR_WAIT_TOO_LONG,
  /**
   * A defect of this library.
   */
  RL_ERR_INTERNAL,
} rl_status;

/**
 * What to answer when the store gives no usable answer.
 */
typedef enum {
  /**
   * Return `RL_ERR_STORE_UNAVAILABLE`.
   */
  RL_ON_ERROR_THROW = 0,
  /**
   * Let the call pass; `source` is `RL_SOURCE_FAIL_OPEN`.
   */
  RL_ON_ERROR_OPEN,
  /**
   * Refuse the call for a second; `source` is `RL_SOURCE_FAIL_CLOSED`.
   */
  RL_ON_ERROR_CLOSED,
  /**
   * Decide in memory of this process, by the policy divided by `share`; `source` is `RL_SOURCE_LOCAL`.
   */
  RL_ON_ERROR_LOCAL,
} rl_on_error;

/**
 * Where an answer came from.
 */
typedef enum {
  /**
   * The store.
   */
  RL_SOURCE_STORE = 0,
  /**
   * A denial remembered in this process.
   */
  RL_SOURCE_DENY_CACHE,
  /**
   * Units leased to this host.
   */
  RL_SOURCE_LEASE,
  /**
   * The store failed; the fallback store of this host decided.
   */
  RL_SOURCE_LOCAL,
  /**
   * The store failed, and the failure rule lets calls pass.
   */
  RL_SOURCE_FAIL_OPEN,
  /**
   * The store failed, and the failure rule refuses calls.
   */
  RL_SOURCE_FAIL_CLOSED,
} rl_source;

/**
 * What can be asked of a limiter. What each does is said at the function of its name.
 */
typedef enum {
  /**
   * `rl_allow`.
   */
  RL_VERB_ALLOW = 0,
  /**
   * `rl_peek`.
   */
  RL_VERB_PEEK,
  /**
   * `rl_reserve`.
   */
  RL_VERB_RESERVE,
  /**
   * `rl_wait`.
   */
  RL_VERB_WAIT,
  /**
   * `rl_refund`; answers nothing.
   */
  RL_VERB_REFUND,
  /**
   * `rl_reset`; answers nothing.
   */
  RL_VERB_RESET,
} rl_verb;

/**
 * What happens to requests while the store gives no answer.
 */
typedef enum {
  /**
   * This host's own store takes its place: what the host learns holds for the host.
   */
  RL_OUTAGE_LOCAL = 0,
  /**
   * They go as if there were no limits.
   */
  RL_OUTAGE_OPEN,
  /**
   * They wait, a second at a time.
   */
  RL_OUTAGE_CLOSED,
  /**
   * The functions return `RL_ERR_STORE_UNAVAILABLE`.
   */
  RL_OUTAGE_THROW,
} rl_outage;

/**
 * What to do next.
 */
typedef enum {
  /**
   * Send the request, then tell `rl_governor_after`.
   */
  RL_STEP_SEND = 0,
  /**
   * Sleep for `delay_us`, then ask `rl_governor_resume`. Nothing has been taken.
   */
  RL_STEP_WAIT,
  /**
   * Do not send it: it would have to wait for `delay_us`, which is longer than `max_delay_us`. Nothing has been taken.
   */
  RL_STEP_REFUSE,
  /**
   * The response is the caller's.
   */
  RL_STEP_RETURN,
  /**
   * Sleep for `delay_us`, ask `rl_governor_resume`, and send the request again.
   */
  RL_STEP_RETRY,
  /**
   * The request was refused, and sending it again is not allowed or would take too long; it might pass in `delay_us`.
   */
  RL_STEP_FAIL,
} rl_step;

/**
 * Finds the address of the caller behind proxies that are trusted. May be used from any thread at the same time.
 */
typedef struct rl_client_ip rl_client_ip;

/**
 * Lets at most so many pieces of work on a key be under way at a time, whoever does them. May be used from any thread at
 * the same time, and after `fork` by parent and child.
 *
 * Each holds a lease, which ends by itself after the time of a lease where its holder dies.
 */
typedef struct rl_concurrency rl_concurrency;

/**
 * Keeps one client of an API under that API's limits. Sends nothing and never sleeps. May be used from any thread at the
 * same time, and after `fork` by parent and child.
 */
typedef struct rl_governor rl_governor;

/**
 * Decides by its policies, with the state in its store. May be used from any thread at the same time, and after
 * `fork` by parent and child; calls on a Redis store block until its answer or its time limit, `rl_wait` longer.
 */
typedef struct rl_limiter rl_limiter;

/**
 * Locks by key, in a store. May be used from any thread at the same time, and after `fork` by parent and child.
 *
 * A lock ends by itself after the time it was taken or extended for, so that a holder that dies blocks nobody for longer.
 * On Redis it is as safe as that one server: a failover may lose it.
 */
typedef struct rl_lock rl_lock;

/**
 * How much is allowed: an algorithm with its numbers and a name. Any number of limiters may be made from it, from
 * any thread; only `rl_policy_set_name` wants it for itself.
 *
 * Limits, capacities and bursts are 1 to 2147483647. Windows, periods and intervals are seconds, from a millisecond
 * (an interval: a microsecond) to 71 years. Numbers that are out of range, or too far apart to be counted exactly
 * together, are `RL_ERR_INVALID_POLICY`.
 */
typedef struct rl_policy rl_policy;

/**
 * Where the state of every key lives: memory of this process, or Redis or Valkey servers. May be used from any thread
 * at the same time, and after `fork` by parent and child.
 */
typedef struct rl_store rl_store;

/**
 * A request on its way: one per request. Holds no credential and no URL. Used by one thread at a time.
 */
typedef struct rl_ticket rl_ticket;

/**
 * How full a store is that holds its state itself. All zero for a server.
 */
typedef struct {
  /**
   * States it can hold.
   */
  uint64_t slots;
  /**
   * States it holds that still count.
   */
  uint64_t used;
  /**
   * States that have expired; their slots are taken as others are needed.
   */
  uint64_t expired;
  /**
   * Live states forgotten to make room, since the store was made. Above zero it is too small for its keys.
   */
  uint64_t evicted;
  /**
   * Memory it may take, in bytes.
   */
  uint64_t bytes;
} rl_store_info;

/**
 * Options of a limiter. Zero it (`= {0}` or `memset`), set `struct_size`, then what is to differ: zero means the
 * default everywhere.
 */
typedef struct {
  /**
   * `sizeof(rl_limiter_options)`. Tells the library which members the program knows.
   */
  uint32_t struct_size;
  /**
   * What to answer when the store gives no usable answer.
   */
  rl_on_error on_error;
  /**
   * With `RL_ON_ERROR_LOCAL`: how many processes share the limit. 0 is 1.
   */
  uint32_t share;
  /**
   * Hash every key, so that no raw identity reaches the store.
   */
  bool hash_keys;
  /**
   * The secret of that hash (HMAC-SHA-256), ended by a zero byte; copied. `NULL`: a plain SHA-256, which hides
   * nothing that can be guessed.
   */
  const char *secret;
  /**
   * Instead of `secret`, while one secret takes over from another: `secrets_len` of them, each ended by a zero byte;
   * copied. First the new one, then those that other processes may still have; 4 at most. A call is charged under
   * each, all or nothing, so that processes with either share their limits. The old one can be dropped once all have
   * had both for as long as the longest window. `NULL`: none.
   */
  const char *const *secrets;
  /**
   * How many `secrets` there are.
   */
  size_t secrets_len;
  /**
   * For keys that are asked for very often: up to so many units at once are taken from Redis, and spent by all
   * processes of this host without asking it; `source` is `RL_SOURCE_LEASE` then. Never more passes than the policy
   * allows; a call may be refused while another host has units left. It goes with one policy, a fixed window or a
   * sliding window counter. 0: one round trip per call.
   */
  int64_t lease;
} rl_limiter_options;

/**
 * The answer to one call. A snapshot: by the time it is read somebody else may have spent what remained, so schedule
 * by `retry_after_us`, not by `remaining`.
 */
typedef struct {
  /**
   * Whether the call may go ahead.
   */
  bool allowed;
  /**
   * Whether the store could not be asked and the failure rule answered instead.
   */
  bool degraded;
  /**
   * Where the answer came from.
   */
  rl_source source;
  /**
   * The index of the policy that ruled, in the order given to `rl_limiter_new`: of those that refused the one with
   * the longest wait, else the one with the least left in proportion to its limit.
   */
  uint32_t policy;
  /**
   * The largest cost that can ever pass.
   */
  uint64_t limit;
  /**
   * The largest cost that would pass now, 0 to `limit`.
   */
  uint64_t remaining;
  /**
   * Microseconds until the same call passes if nobody else calls: 0 when allowed, `RL_NEVER` when it never can.
   */
  uint64_t retry_after_us;
  /**
   * Microseconds until the budget is whole again.
   */
  uint64_t reset_after_us;
  /**
   * Microseconds until the caller may start, from `rl_reserve`; 0 from what takes only what is there.
   */
  uint64_t delay_us;
} rl_decision;

/**
 * The key that one policy of a limiter is charged to.
 */
typedef struct {
  /**
   * The policy's name, ended by a zero byte.
   */
  const char *policy;
  /**
   * Whose budget: any bytes.
   */
  const uint8_t *key;
  /**
   * Bytes at `key`.
   */
  size_t key_len;
} rl_key;

/**
 * One call, for `rl_decide`. Zero it (`= {0}` or `memset`), set `struct_size`, then what the call needs: a member that
 * is zero is not used.
 */
typedef struct {
  /**
   * `sizeof(rl_call)`. Tells the library which members the program knows.
   */
  uint32_t struct_size;
  /**
   * What is asked; `RL_VERB_ALLOW` is 0.
   */
  rl_verb verb;
  /**
   * Whose budget, for all policies: any bytes.
   */
  const uint8_t *key;
  /**
   * Bytes at `key`.
   */
  size_t key_len;
  /**
   * Instead of `key`: exactly one key for each policy of the limiter, in any order.
   */
  const rl_key *keys;
  /**
   * Elements at `keys`.
   */
  size_t keys_len;
  /**
   * Units, 1 to 2147483647. It has no default: 0 is refused. `RL_VERB_RESET` has none.
   */
  int64_t cost;
  /**
   * The longest wait that is accepted, for `RL_VERB_RESERVE` and `RL_VERB_WAIT`; `RL_NEVER` is any.
   */
  uint64_t max_wait_us;
  /**
   * As of this instant, in microseconds since 1970 and below 2^52, instead of the store's clock: for tests, and for
   * replaying a log. Calls on one key must not mix the two, since an embedded store's own clock does not count from
   * 1970. Not for `RL_VERB_WAIT`, which sleeps. 0: now.
   */
  uint64_t now_us;
  /**
   * An idempotency token, any bytes but none: what a call with the same token on the same key has taken within the
   * last minute is not taken again, and its decision is given again. So a call that timed out may be sent again.
   * What was given back is remembered apart from what was taken: a refund may bear the token of the call it undoes.
   * `RL_VERB_PEEK` and `RL_VERB_RESET` have no use for a token.
   */
  const uint8_t *token;
  /**
   * Bytes at `token`.
   */
  size_t token_len;
  /**
   * What to answer when the store gives no usable answer to this call, in place of what the limiter's options say;
   * `NULL`: as they say. `RL_VERB_RESET` has no use for it.
   */
  const rl_on_error *on_error;
} rl_call;

/**
 * One call of many, for `rl_allow_many`.
 */
typedef struct {
  /**
   * Whose budget, for all policies: any bytes; `NULL` only when `key_len` is 0.
   */
  const uint8_t *key;
  /**
   * Bytes at `key`.
   */
  size_t key_len;
  /**
   * Units, 1 to 2147483647. It has no default: 0 is refused.
   */
  int64_t cost;
} rl_batch_item;

/**
 * How to write header fields, for `rl_headers_with`. Zero it (`= {0}` or `memset`), set `struct_size`, then what is to
 * differ.
 */
typedef struct {
  /**
   * `sizeof(rl_header_options)`. Tells the library which members the program knows.
   */
  uint32_t struct_size;
  /**
   * `NULL` or `ietf`, or one of the others that `rl_headers` knows.
   */
  const char *style;
  /**
   * The decisions of all policies of the limiter, in their order, from `rl_decide`. The style `ietf` then tells of all
   * of them, and `draft-7` lists them. `NULL`: there is the one decision alone.
   */
  const rl_decision *each;
  /**
   * Elements at `each`.
   */
  size_t each_len;
  /**
   * What is counted, for the style `ietf`, such as `content-bytes`; printable ASCII. `NULL`: requests.
   */
  const char *quota_unit;
  /**
   * Whose budget it is, for the style `ietf`: any bytes, but no raw identity, since whoever sees the response reads
   * them. `NULL`: nothing.
   */
  const uint8_t *partition_key;
  /**
   * Bytes at `partition_key`.
   */
  size_t partition_key_len;
  /**
   * The present in microseconds since 1970, for the style `x-ratelimit-epoch`. 0: what the wall clock says.
   */
  uint64_t now_us;
} rl_header_options;

/**
 * Options of a governor. Zero it, set `struct_size`, then what is to differ: zero means what the preset has.
 */
typedef struct {
  /**
   * `sizeof(rl_governor_options)`. Tells the library which members the program knows.
   */
  uint32_t struct_size;
  /**
   * How often a request is sent again, 1 to 100; `UINT32_MAX` is never.
   */
  uint32_t max_retries;
  /**
   * Longer than this nothing waits, in microseconds.
   */
  uint64_t max_delay_us;
  /**
   * Waited longer than until a reset, in microseconds, up to an hour; `RL_NEVER` is not at all.
   */
  uint64_t safety_buffer_us;
  /**
   * Every wait is made longer by a random part of itself, up to this one, 0 to 1.
   */
  double jitter;
  /**
   * Limits of one's own on each identity's requests to a host: pointers to `limits_len` policies, which the governor
   * copies.
   */
  const rl_policy *const *limits;
  /**
   * How many.
   */
  size_t limits_len;
  /**
   * The secret of the fingerprints under which identities are stored, ended by a zero byte; copied.
   */
  const char *secret;
  /**
   * What happens to requests while the store gives no answer.
   */
  rl_outage on_error;
} rl_governor_options;

/**
 * What a governor says.
 */
typedef struct {
  /**
   * What to do next.
   */
  rl_step step;
  /**
   * Which retry it will be, from 1; 0 unless `step` is `RL_STEP_RETRY`.
   */
  uint32_t attempt;
  /**
   * A wait in microseconds.
   */
  uint64_t delay_us;
  /**
   * Whether everything of this identity is refused.
   */
  bool global;
  /**
   * Whether the wait is longer than `max_delay_us`, and not the retries used up.
   */
  bool too_long;
  /**
   * Whether this was the invalid request after which none is sent for a while.
   */
  bool invalid_limit_reached;
  /**
   * Whether the store gave no answer, so that `on_error` decided; of a response: before it was sent.
   */
  bool degraded;
} rl_advice;

/**
 * A request with what is different for this one. Zero it, set `struct_size`, `method` and `url`, then what is to differ.
 */
typedef struct {
  /**
   * `sizeof(rl_request)`. Tells the library which members the program knows.
   */
  uint32_t struct_size;
  /**
   * How often it is sent again, in place of the governor's, 1 to 100; `UINT32_MAX` is never.
   */
  uint32_t max_retries;
  /**
   * `GET` and the like.
   */
  const char *method;
  /**
   * The absolute URL.
   */
  const char *url;
  /**
   * The value of that header: whose budget it is. Only a fingerprint is kept. `NULL`: there is none.
   */
  const char *authorization;
  /**
   * Whose budget it is, in place of what `authorization` says; `NULL`: as that says.
   */
  const char *identity;
  /**
   * What it is counted under, in place of what its route says; `NULL`: as that says.
   */
  const char *bucket;
  /**
   * Longer than this it does not wait, in microseconds, in place of the governor's; `RL_NEVER` is as long as it takes.
   */
  uint64_t max_delay_us;
  /**
   * It goes as if there were no governor.
   */
  bool disabled;
} rl_request;

/**
 * What is known of a bucket.
 */
typedef struct {
  /**
   * Whether anything is known; the other members are 0 where not.
   */
  bool known;
  /**
   * Units per window; 0 where unknown.
   */
  uint64_t limit;
  /**
   * Units left.
   */
  uint64_t remaining;
  /**
   * Until it is whole again, in microseconds.
   */
  uint64_t reset_after_us;
  /**
   * Until the next request may go, in microseconds; 0 when it may go now.
   */
  uint64_t retry_after_us;
} rl_bucket_state;

/**
 * One line of a response's header.
 */
typedef struct {
  /**
   * Its name, ended by a zero byte.
   */
  const char *name;
  /**
   * Its value, ended by a zero byte.
   */
  const char *value;
} rl_header;

/**
 * A decision has been made. The texts are valid until the callback returns.
 */
typedef struct {
  /**
   * What was asked. A wait is told as what it asks at each step: `RL_VERB_RESERVE` where its policies hand out slots,
   * else `RL_VERB_ALLOW`.
   */
  rl_verb verb;
  /**
   * Units.
   */
  uint64_t cost;
  /**
   * The name of the policy that ruled.
   */
  const char *policy;
  /**
   * Whose budget: 16 characters of the key's hash, the same for each call on the key. With a `secret` it is a keyed
   * hash; without one an address can be found by trying all of them. Never the key.
   */
  const char *key;
  /**
   * The kind of the limiter's store: `memory`, `shared`, `redis`, `sentinel` or `cluster`.
   */
  const char *store;
  /**
   * How long it took until the answer was there; for one of many calls, until all answers were.
   */
  uint64_t duration_us;
  /**
   * The decision over all policies.
   */
  rl_decision decision;
} rl_decision_event;

/**
 * Hears of decisions. Called on the thread of the call, before the call returns, and from several threads at once where
 * they share the limiter. It may ask the same limiter: of what it asks itself, nothing is told. It must not throw and not
 * leave by a jump.
 */
typedef void (*rl_on_decision)(const rl_decision_event *event, void *user_data);

/**
 * A store has given no usable answer. Unless the failure rule is `RL_ON_ERROR_THROW`, an event of a decision follows. The
 * texts are valid until the callback returns.
 */
typedef struct {
  /**
   * What was asked, as in `rl_decision_event`, or `RL_VERB_RESET`.
   */
  rl_verb verb;
  /**
   * Units; 0 for `RL_VERB_RESET`.
   */
  uint64_t cost;
  /**
   * The name of the limiter's policy; of several the first.
   */
  const char *policy;
  /**
   * As in `rl_decision_event`.
   */
  const char *key;
  /**
   * As in `rl_decision_event`.
   */
  const char *store;
  /**
   * How long it took until the failure was there.
   */
  uint64_t duration_us;
  /**
   * What went wrong, in a word: `timeout`, `refused`, `readonly`, `loading`, `busy`, `noperm`, `oom`, `wrongtype`,
   * `protocol` or `closed`.
   */
  const char *kind;
  /**
   * What went wrong, as a sentence. It holds no key and no password.
   */
  const char *message;
} rl_store_error_event;

/**
 * Hears of stores that gave no usable answer. What is said of `rl_on_decision` goes for it, too.
 */
typedef void (*rl_on_store_error)(const rl_store_error_event *event, void *user_data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The sentence about this thread's last call that failed, in UTF-8: `capacity must be between 1 and 2147483647, got
 * 0`. Never `NULL`; empty when no call has failed. It holds no key and no password.
 *
 * The text belongs to the library and stays valid until this thread's next call of a function of this library other
 * than this one. A call that works leaves it as it is, so look at the returned status, not at this.
 */
const char *rl_last_error(void);

/**
 * Opens the store that `dsn` names; connects on first use, so a server that is away is no error here.
 *
 * | DSN | store |
 * |---|---|
 * | `shared:`, `shared:/path` | every process of this user; `?size=` (64MiB), `?timeout=` (seconds, 0.2) |
 * | `memory:` | this process; `?max_keys=` (1000000) |
 * | `redis://[user:password@]host[:port][/database]` | a server over TCP |
 * | `redis+unix:///path/to/socket` | a server on this host; `?db=`, `?username=`, `?password=` |
 * | `redis+sentinel://[user:password@]host[:port],.../master[/database]` | the primary that sentinels name; `?sentinel_username=`, `?sentinel_password=` |
 * | `redis+cluster://[user:password@]host[:port],...` | a cluster, found through these nodes |
 *
 * `valkey` may stand for `redis`. `rediss` and `valkeys` are encrypted, also with `+sentinel` and `+cluster`: `?ca=`,
 * `?cert=` and `?key=` name files, of the authorities that are trusted (the system's without it) and of the client's
 * own certificate; `?server_name=` is the name to be certified, and `?insecure=1` takes any certificate.
 *
 * Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`), `?pool=`
 * (idle connections kept per server, 64), `?deny_cache=` (used-up keys that are refused without asking, 10000; 0 for
 * none), `?protocol=` (`resp2` or `resp3`), `?client_name=`, and `?clock=caller` for services that refuse `TIME` in
 * scripts. The same DSN names the same store within a process, however often it is opened.
 *
 * @param dsn  UTF-8. `NULL`: the environment variable `RATELIMIT_STORE`, and without that `shared:`.
 * @param out  The store, to be freed with `rl_store_free`.
 * @return `RL_ERR_INVALID_STORE` for a DSN that names none; the sentence says which part is wrong.
 */
rl_status rl_store_open(const char *dsn,
                        rl_store **out);

/**
 * How full a store is. Looks at every slot.
 *
 * @param store  `memory:` or `shared:`; of a server nothing is known.
 * @param out    The numbers, about right at no single instant, since others go on.
 */
rl_status rl_store_get_info(const rl_store *store, rl_store_info *out);

/**
 * Frees a store. Limiters made with it go on working, and whoever opens the same DSN later finds its memory or its idle
 * connections as they were. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
 */
void rl_store_free(rl_store *store);

/**
 * A token bucket: holds up to `capacity` tokens and is full at first; a call takes its cost in tokens.
 *
 * @param capacity           Tokens.
 * @param refill_rate        Tokens that come back per interval, positive and finite; 0.1 is exactly a tenth.
 * @param refill_interval_s  The interval.
 * @param continuous         false: the tokens come at the end of each interval. true: they trickle in all the time.
 * @param out                The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_token_bucket(uint64_t capacity,
                                 double refill_rate,
                                 double refill_interval_s,
                                 bool continuous,
                                 rl_policy **out);

/**
 * A fixed window: at most `limit` units in each window. Around the edge of two windows up to twice the limit may pass
 * within one window's length. Days, weeks and months of a time zone: `rl_policy_parse`.
 *
 * @param limit     Units.
 * @param window_s  How long a window is.
 * @param aligned   false: a window is opened by the first hit. true: windows stand at multiples of `window_s` since
 *                  1970.
 * @param out       The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_fixed_window(uint64_t limit,
                                 double window_s,
                                 bool aligned,
                                 rl_policy **out);

/**
 * A sliding window log: at most `limit` units in any `window_s` seconds. Exact; remembers every grant, so a key takes
 * memory in proportion to the limit.
 *
 * @param limit     Units.
 * @param window_s  How far back it looks.
 * @param out       The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_sliding_window_log(uint64_t limit,
                                       double window_s,
                                       rl_policy **out);

/**
 * A sliding window counter: about `limit` units in any `window_s` seconds, from the counts of two windows, as if the
 * hits of the previous one had been spread evenly.
 *
 * @param limit     Units.
 * @param window_s  How far back it looks.
 * @param out       The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_sliding_window_counter(uint64_t limit,
                                           double window_s,
                                           rl_policy **out);

/**
 * A leaky bucket: a call pours its cost in, and is refused when the bucket would overflow. `rl_reserve` and `rl_wait`
 * use it as a queue, whose starts are spaced evenly.
 *
 * @param capacity         Units it holds.
 * @param leak_rate_per_s  Units that leak out per second, positive and finite; 0.1 is exactly a tenth.
 * @param out              The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_leaky_bucket(uint64_t capacity,
                                 double leak_rate_per_s,
                                 rl_policy **out);

/**
 * GCRA, the generic cell rate algorithm: `limit` units per `period_s` seconds, evenly spaced, some of them at once.
 *
 * @param limit     Units per period.
 * @param period_s  The period.
 * @param burst     Units that may come at once; 0 is as many as `limit`.
 * @param out       The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` naming the number at fault.
 */
rl_status rl_policy_gcra(uint64_t limit,
                         double period_s,
                         uint64_t burst,
                         rl_policy **out);

/**
 * Reads a policy from a text, such as one of a configuration file.
 *
 * | text | policy |
 * |---|---|
 * | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
 * | `100/h aligned` | fixed window at multiples of an hour |
 * | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
 * | `100/h sliding` | sliding window counter |
 * | `100/h log` | sliding window log |
 * | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
 * | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
 * | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
 * | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |
 *
 * Units of time are `us`, `ms`, `s`, `m`, `h`, `d`, `w`, or the words for them.
 *
 * @param text  UTF-8.
 * @param out   The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` for another text; the sentence points at the place.
 */
rl_status rl_policy_parse(const char *text, rl_policy **out);

/**
 * Gives a policy another name. The name is part of the stored key: policies with different names never share a
 * budget. Limiters that exist keep the old one.
 *
 * Nobody else may use the policy during this call.
 *
 * @param name  1 to 100 printable ASCII characters; copied.
 * @return `RL_ERR_INVALID_POLICY` for another name.
 */
rl_status rl_policy_set_name(rl_policy *policy,
                             const char *name);

/**
 * Frees a policy. Limiters made with it go on working. `NULL` is a no-op; freeing twice is an error of the program
 * that is not detected.
 */
void rl_policy_free(rl_policy *policy);

/**
 * Binds policies to a store. Asks the store nothing, so it is cheap and works while the store is away.
 *
 * Several policies are charged all or none, in one atomic step: a call that one of them refuses takes nothing from the
 * others.
 *
 * @param policies  Pointers to `n` policies. The limiter keeps what it needs: free them when you like.
 * @param n         1 to 32. Those of one algorithm must differ in name or window.
 * @param store     Kept by the limiter as well.
 * @param options   `NULL`: the defaults.
 * @param out       The limiter, to be freed with `rl_limiter_free`.
 * @return `RL_ERR_INVALID_POLICY` for another `n`, for policies that would charge one budget twice, and for one that
 *         cannot be divided by `share`; `RL_ERR_INVALID_ARGUMENT` for an option out of range.
 */
rl_status rl_limiter_new(const rl_policy *const *policies,
                         size_t n,
                         rl_store *store,
                         const rl_limiter_options *options,
                         rl_limiter **out);

/**
 * Frees a limiter. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not
 * detected.
 */
void rl_limiter_free(rl_limiter *limiter);

/**
 * Takes `cost` units of the key's budget, if they are there. One round trip on a Redis store, however many policies.
 *
 * @param key   Whose budget, for all policies: any bytes, `key_len` of them; `NULL` only when `key_len` is 0. A long
 *              or unprintable key is stored as its hash.
 * @param cost  Units, 1 to 2147483647. More than the limit is no error: it is denied with `RL_NEVER`.
 * @param out   The decision.
 * @return `RL_ERR_INVALID_ARGUMENT` for a cost out of range, with nothing asked or taken; `RL_ERR_STORE_UNAVAILABLE`
 *         as `on_error` says.
 */
rl_status rl_allow(rl_limiter *limiter,
                   const uint8_t *key,
                   size_t key_len,
                   int64_t cost,
                   rl_decision *out);

/**
 * Says what `rl_allow` would answer, and takes nothing. Arguments and errors are those of `rl_allow`.
 */
rl_status rl_peek(rl_limiter *limiter,
                  const uint8_t *key,
                  size_t key_len,
                  int64_t cost,
                  rl_decision *out);

/**
 * Takes `cost` units now, for a start after `delay_us`: ahead of time where they are not there yet. Token bucket and
 * GCRA go into debt; a leaky bucket is a queue, in which each start waits for all before it to leak out, and a full
 * queue denies. Does not sleep.
 *
 * @param max_wait_us  The longest delay that is accepted: beyond it the call is denied and takes nothing. `RL_NEVER`
 *                     is any.
 * @return As for `rl_allow`; and `RL_ERR_INVALID_ARGUMENT` for a window policy, which hands out no slots: `rl_wait` is
 *         for them.
 */
rl_status rl_reserve(rl_limiter *limiter,
                     const uint8_t *key,
                     size_t key_len,
                     int64_t cost,
                     uint64_t max_wait_us,
                     rl_decision *out);

/**
 * Takes `cost` units, sleeping on this thread until they are there. Goes for every policy. A signal does not end the
 * sleep.
 *
 * Those who wait for the same instant wake spread over a tenth of their wait, at most 0.1 s.
 *
 * @param max_wait_us  The longest wait that is accepted; `RL_NEVER` is any.
 * @param out          The decision with which the call passed.
 * @return As for `rl_allow`; and `RL_ERR_WAIT_TOO_LONG`, with nothing taken, as soon as it is known that the wait
 *         would be longer, or that the cost can never pass.
 */
rl_status rl_wait(rl_limiter *limiter,
                  const uint8_t *key,
                  size_t key_len,
                  int64_t cost,
                  uint64_t max_wait_us,
                  rl_decision *out);

/**
 * Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit. What
 * has come back by itself in the meantime is not given twice.
 *
 * @param cost  Units, 1 to 2147483647.
 * @return As for `rl_allow`. Under the rules open and closed a refund that does not reach the store is dropped.
 */
rl_status rl_refund(rl_limiter *limiter,
                    const uint8_t *key,
                    size_t key_len,
                    int64_t cost);

/**
 * Forgets what a key has used: its budget is whole again.
 *
 * @param key  As for `rl_allow`.
 * @return `RL_ERR_STORE_UNAVAILABLE` whatever `on_error` says: no rule can stand in for forgetting.
 */
rl_status rl_reset(rl_limiter *limiter, const uint8_t *key, size_t key_len);

/**
 * Gives back what this process has leased and nobody has spent, of all keys: at the end of a program, or before a
 * pause. Other processes of this host lease anew. Without leases it does nothing.
 *
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store did not answer; what was on its way is lost until its window ends.
 */
rl_status rl_return_leases(rl_limiter *limiter);

/**
 * Answers one call that has more to say than the functions for each verb take: a key per policy, an idempotency token,
 * an instant or a failure rule of its own, or a decision per policy wanted back.
 *
 * ```c
 * rl_decision decision, each[2];
 * rl_key keys[] = {{"per user", user, user_len}, {"everybody", NULL, 0}};
 * rl_call call = {.struct_size = sizeof call, .verb = RL_VERB_ALLOW, .keys = keys, .keys_len = 2, .cost = 1};
 * rl_status status = rl_decide(limiter, &call, &decision, each, 2);
 * ```
 *
 * @param call      What is asked.
 * @param out       The decision over all policies, as from the function for the verb. Not written by `RL_VERB_REFUND`
 *                  and `RL_VERB_RESET`, and may be `NULL` for them; so may `each`.
 * @param each      Where to write one decision per policy, in the order given to `rl_limiter_new`; `NULL`: nowhere.
 *                  It must not overlap `out`.
 * @param each_len  Elements at `each`: at least the number of policies, or 0 with `NULL`.
 * @return What the function for the verb returns, and `RL_ERR_INVALID_ARGUMENT` for a member that is wrong: a policy
 *         with no key or with two, a key without a policy, both `key` and `keys`, an empty token, or an `each` too
 *         short.
 */
rl_status rl_decide(rl_limiter *limiter,
                    const rl_call *call,
                    rl_decision *out,
                    rl_decision *each,
                    size_t each_len);

/**
 * `rl_allow` for each item, in order, in as few round trips as the store allows: one per Redis server. Each decision
 * stands alone, and one that is denied changes nothing for the others; items of one key are charged one after the
 * other.
 *
 * A wrong argument fails the whole call before anything is asked, and writes nothing: `cost must be an integer between
 * 1 and 2147483647, got 0, at index 3`. After that each item has an outcome of its own, so that what some of them have
 * been granted is not lost where others have no answer:
 *
 * ```c
 * rl_decision decisions[3];
 * rl_status statuses[3];
 * rl_status status = rl_allow_many(limiter, items, 3, decisions, statuses);
 * if (status == RL_ERR_STORE_UNAVAILABLE) {
 *   // decisions[i] is there where statuses[i] is RL_OK
 * }
 * ```
 *
 * @param items     What is asked.
 * @param n         Elements at `items`; 0 asks nothing and is `RL_OK`.
 * @param out       Where to write `n` decisions. One that is not known stays as it was.
 * @param statuses  Where to write `n` statuses: `RL_OK` where there is a decision. `NULL`: nowhere. Must not overlap
 *                  `out`.
 * @return `RL_OK` when every item has its decision; `RL_ERR_INVALID_ARGUMENT` for a wrong argument; else the first
 *         status that is not `RL_OK`, and `rl_last_error()` is about that item.
 */
rl_status rl_allow_many(rl_limiter *limiter,
                        const rl_batch_item *items,
                        size_t n,
                        rl_decision *out,
                        rl_status *statuses);

/**
 * Makes locks in a store. Asks the store nothing.
 *
 * @param store  Kept by the locks.
 * @param out    The locks, to be freed with `rl_lock_free`.
 */
rl_status rl_lock_new(rl_store *store, rl_lock **out);

/**
 * Frees the handle; locks that are held stay so. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of
 * the program that is not detected.
 */
void rl_lock_free(rl_lock *lock);

/**
 * Takes a lock, sleeping on this thread while somebody else holds it. A signal does not end the sleep, and those who wait
 * are in no queue.
 *
 * @param key          What is locked: any bytes, `key_len` of them; `NULL` only when `key_len` is 0.
 * @param ttl_s        Seconds until it ends by itself, from 0.001.
 * @param max_wait_us  0 is one try, `RL_NEVER` as long as it takes.
 * @param holder       Memory of `RL_HOLDER_LEN` bytes for the text by which it is extended and released, in this process
 *                     or in another, whatever its language; empty where somebody else holds the lock.
 * @param acquired     Whether it was taken.
 * @return `RL_ERR_INVALID_ARGUMENT` for a time that is none, with nothing asked or taken; `RL_ERR_STORE_UNAVAILABLE` when
 *         the store gives no answer: the lock may be taken then, until its time is over.
 */
rl_status rl_lock_acquire(rl_lock *lock,
                          const uint8_t *key,
                          size_t key_len,
                          double ttl_s,
                          uint64_t max_wait_us,
                          char *holder,
                          bool *acquired);

/**
 * Makes a lock that is held end `ttl_s` seconds from now.
 *
 * @param key       As for `rl_lock_acquire`.
 * @param holder    What `rl_lock_acquire` wrote.
 * @param ttl_s     Seconds, from 0.001.
 * @param extended  False where it is not, or not any more, this holder's.
 * @return As for `rl_lock_acquire`.
 */
rl_status rl_lock_extend(rl_lock *lock,
                         const uint8_t *key,
                         size_t key_len,
                         const char *holder,
                         double ttl_s,
                         bool *extended);

/**
 * Lets a lock go.
 *
 * @param key       As for `rl_lock_acquire`.
 * @param holder    What `rl_lock_acquire` wrote.
 * @param released  False where it was not, or not any more, this holder's: what it was to protect may have been done by
 *                  two at once.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer; the lock ends by itself then.
 */
rl_status rl_lock_release(rl_lock *lock,
                          const uint8_t *key,
                          size_t key_len,
                          const char *holder,
                          bool *released);

/**
 * Whether anybody holds a lock.
 *
 * @param key   As for `rl_lock_acquire`.
 * @param held  The answer, which may be out of date when it arrives.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
 */
rl_status rl_lock_is_held(rl_lock *lock, const uint8_t *key, size_t key_len, bool *held);

/**
 * Makes a limit on what is under way. Asks the store nothing.
 *
 * @param limit        Leases on each key, 1 to 2147483647. An embedded store looks at all of a key in every step, so limits
 *                     beyond some thousands belong on Redis.
 * @param lease_ttl_s  Seconds after which a lease ends by itself, from 0.001, unless it is extended.
 * @param store        Kept by the limit.
 * @param name         1 to 100 printable ASCII characters; two names share no leases. `NULL`: `default`.
 * @param out          The limit, to be freed with `rl_concurrency_free`.
 * @return `RL_ERR_INVALID_POLICY` for numbers out of range and a name that is none.
 */
rl_status rl_concurrency_new(int64_t limit,
                             double lease_ttl_s,
                             rl_store *store,
                             const char *name,
                             rl_concurrency **out);

/**
 * Frees the handle; leases that are held stay so. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of
 * the program that is not detected.
 */
void rl_concurrency_free(rl_concurrency *concurrency);

/**
 * Takes a lease, sleeping on this thread while all are taken. A signal does not end the sleep, and those who wait are in
 * no queue.
 *
 * @param key          On what: any bytes, `key_len` of them; `NULL` only when `key_len` is 0.
 * @param max_wait_us  0 is one try, `RL_NEVER` as long as it takes.
 * @param lease        Memory of `RL_HOLDER_LEN` bytes for the text by which it is extended and released, in this process or
 *                     in another, whatever its language; empty where all are taken.
 * @param acquired     Whether there was one.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer: a lease may be taken then, until its time is over.
 */
rl_status rl_concurrency_acquire(rl_concurrency *concurrency,
                                 const uint8_t *key,
                                 size_t key_len,
                                 uint64_t max_wait_us,
                                 char *lease,
                                 bool *acquired);

/**
 * Makes a lease last anew.
 *
 * @param key       As for `rl_concurrency_acquire`.
 * @param lease     What `rl_concurrency_acquire` wrote.
 * @param extended  False where its time was over before, or nobody has it.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
 */
rl_status rl_concurrency_extend(rl_concurrency *concurrency,
                                const uint8_t *key,
                                size_t key_len,
                                const char *lease,
                                bool *extended);

/**
 * Gives a lease back.
 *
 * @param key       As for `rl_concurrency_acquire`.
 * @param lease     What `rl_concurrency_acquire` wrote.
 * @param released  False where its time was over before, or nobody has it.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer; the lease ends by itself then.
 */
rl_status rl_concurrency_release(rl_concurrency *concurrency,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const char *lease,
                                 bool *released);

/**
 * Says how many leases are left, and takes none.
 *
 * @param key  As for `rl_concurrency_acquire`.
 * @param out  `remaining` of `limit` are left; where none is, `retry_after_us` is how long it is at most until one is.
 * @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
 */
rl_status rl_concurrency_peek(rl_concurrency *concurrency,
                              const uint8_t *key,
                              size_t key_len,
                              rl_decision *out);

/**
 * Writes the header fields of a decision, each as `Name: value\r\n`, with a zero byte at the end. A denial has a
 * `Retry-After`, unless no wait helps.
 *
 * Either call it twice, first with `NULL` for `buf` to learn the length, or once with 1024 bytes, which are enough
 * for one policy of any name.
 *
 * @param limiter   The limiter that decided.
 * @param decision  What it decided: over all its policies, of which the one that ruled is told, or by one of them.
 *                  `rl_headers_with` tells of all.
 * @param style     `NULL` or `ietf` (RateLimit and RateLimit-Policy), `draft-7`, `draft-3`, `x-ratelimit`,
 *                  `x-ratelimit-epoch` (the reset in seconds since 1970), or `none` for `Retry-After` alone.
 * @param buf       Where to write; `NULL` to write nothing.
 * @param len       Bytes at `buf`.
 * @param needed    The bytes that the text takes, its zero byte included.
 * @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that, for another style, or for a decision that is none of
 *         this limiter's.
 */
rl_status rl_headers(const rl_limiter *limiter,
                     const rl_decision *decision,
                     const char *style,
                     char *buf,
                     size_t len,
                     size_t *needed);

/**
 * Writes the header fields of a decision, as `rl_headers` does, with more to say about them.
 *
 * ```c
 * rl_header_options options = {.struct_size = sizeof options, .each = each, .each_len = 2};
 * rl_status status = rl_headers_with(limiter, &decision, &options, text, sizeof text, &needed);
 * ```
 *
 * @param options  What differs; `NULL`: nothing.
 * @return What `rl_headers` returns, and `RL_ERR_INVALID_ARGUMENT` for a member that is wrong.
 */
rl_status rl_headers_with(const rl_limiter *limiter,
                          const rl_decision *decision,
                          const rl_header_options *options,
                          char *buf,
                          size_t len,
                          size_t *needed);

/**
 * Writes the body of a refusal: problem details (RFC 9457), a JSON object with a zero byte at the end. Its `Content-Type`
 * is `application/problem+json`; send `Cache-Control: no-store` with it, so that no cache keeps it.
 *
 * @param limiter   The limiter that decided.
 * @param decision  What it decided: a denial.
 * @param each      The decisions of all its policies, in their order, from `rl_decide`, so that all that refused are
 *                  named. `NULL`: the one that ruled is.
 * @param each_len  Elements at `each`.
 * @param type      `NULL` or `quota-exceeded`, `temporary-reduced-capacity`, or `abnormal-usage-detected`. Where the
 *                  failure rule refused since the store is away it is always `temporary-reduced-capacity`.
 * @param buf       Where to write; `NULL` to write nothing.
 * @param len       Bytes at `buf`. 1024 are enough for one policy of any name.
 * @param needed    The bytes that the text takes, its zero byte included.
 * @param status    The status of the response: 429, or 503 for `temporary-reduced-capacity`.
 * @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that, for another type, for a decision that let the call
 *         pass, or for one that is none of this limiter's.
 */
rl_status rl_problem(const rl_limiter *limiter,
                     const rl_decision *decision,
                     const rl_decision *each,
                     size_t each_len,
                     const char *type,
                     char *buf,
                     size_t len,
                     size_t *needed,
                     uint32_t *status);

/**
 * Says which proxies are trusted, and how.
 *
 * A header is read only when the peer is trusted, and from the right, where the nearest proxy has written: the first
 * address that is no trusted proxy's is the caller's. What cannot be read ends the walk at the last proxy known.
 *
 * @param trusted      Texts: addresses, networks such as `10.0.0.0/8`, and `unix` for peers without an address, which
 *                     come through a Unix socket.
 * @param n            Elements at `trusted`; with 0 no header is read.
 * @param header       The header that the proxies write: `forwarded` or `x-forwarded-for`; no other is looked at then.
 *                     `NULL` or `auto`: the one that is there; where both are and do not agree, neither is believed.
 * @param ipv6_prefix  How many leading bits of an IPv6 address make one caller, 1 to 128. 0: 64.
 * @param out          To be freed with `rl_client_ip_free`.
 * @return `RL_ERR_INVALID_ARGUMENT` for anything else.
 */
rl_status rl_client_ip_new(const char *const *trusted,
                           size_t n,
                           const char *header,
                           uint32_t ipv6_prefix,
                           rl_client_ip **out);

/**
 * Frees it. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
 */
void rl_client_ip_free(rl_client_ip *client_ip);

/**
 * Writes who a request comes from, as a key to charge: an IPv4 address, or the network of an IPv6 address such as
 * `2001:db8:0:1::/64`; with a zero byte at the end. An empty text where nobody can tell: the peer has no address, and is
 * not trusted or says nothing.
 *
 * @param client_ip        Which proxies are trusted.
 * @param peer             The other end of the connection, with or without a port; `NULL`: it has no address.
 * @param forwarded        The lines of `Forwarded`, in the order received.
 * @param forwarded_n      Elements at `forwarded`.
 * @param x_forwarded_for  The lines of `X-Forwarded-For`, in the order received.
 * @param x_forwarded_for_n Elements at `x_forwarded_for`.
 * @param buf              Where to write; `NULL` to write nothing.
 * @param len              Bytes at `buf`; 64 are always enough.
 * @param needed           The bytes that the text takes, its zero byte included: 1 where nobody can tell.
 * @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that.
 */
rl_status rl_client_ip_resolve(const rl_client_ip *client_ip,
                               const char *peer,
                               const char *const *forwarded,
                               size_t forwarded_n,
                               const char *const *x_forwarded_for,
                               size_t x_forwarded_for_n,
                               char *buf,
                               size_t len,
                               size_t *needed);

/**
 * Makes a governor. Asks the store nothing.
 *
 * @param preset   The name of an API (`github`, `discord`, `openai` …), or `default`, `conservative` or `aggressive`
 *                 for any that speaks one of the common families of headers, or both as in `github+conservative`.
 * @param store    Where what is learnt is kept, shared by everyone who uses it. Kept by the governor.
 * @param options  `NULL`: the preset's.
 * @param out      The governor, to be freed with `rl_governor_free`.
 * @return `RL_ERR_INVALID_ARGUMENT` for an unknown preset or an option out of range.
 */
rl_status rl_governor_new(const char *preset,
                          rl_store *store,
                          const rl_governor_options *options,
                          rl_governor **out);

/**
 * Frees a governor. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not
 * detected.
 */
void rl_governor_free(rl_governor *governor);

/**
 * Asks for a request to be sent: in one step it is taken from everything that counts it, or from nothing.
 *
 * @param method         `GET` and the like.
 * @param url            The absolute URL.
 * @param authorization  The value of that header: whose budget it is. Only a fingerprint is kept. `NULL`: there is none.
 * @param ticket         The request's ticket, to be freed with `rl_ticket_free` whatever the advice.
 * @param out            `RL_STEP_SEND`, `RL_STEP_WAIT` or `RL_STEP_REFUSE`.
 * @return `RL_ERR_INVALID_ARGUMENT` for a URL that is not absolute; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
 */
rl_status rl_governor_before(rl_governor *governor,
                             const char *method,
                             const char *url,
                             const char *authorization,
                             rl_ticket **ticket,
                             rl_advice *out);

/**
 * `rl_governor_before` for a request with options of its own.
 *
 * @param request  The request; nothing of it is kept.
 * @param ticket   The request's ticket, to be freed with `rl_ticket_free` whatever the advice.
 * @param out      `RL_STEP_SEND`, `RL_STEP_WAIT` or `RL_STEP_REFUSE`.
 * @return As `rl_governor_before`; `RL_ERR_INVALID_ARGUMENT` also for an option out of range.
 */
rl_status rl_governor_before_request(rl_governor *governor,
                                     const rl_request *request,
                                     rl_ticket **ticket,
                                     rl_advice *out);

/**
 * Tells what is known of the bucket that a request would be taken from.
 *
 * @param authorization  As for `rl_governor_before`.
 * @return `RL_ERR_INVALID_ARGUMENT` for a URL that is not absolute; `RL_ERR_STORE_UNAVAILABLE` whatever `on_error` says.
 */
rl_status rl_governor_state(rl_governor *governor,
                            const char *method,
                            const char *url,
                            const char *authorization,
                            rl_bucket_state *out);

/**
 * Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that apply
 * to it.
 *
 * @param authorization  As for `rl_governor_before`.
 * @return As `rl_governor_state`.
 */
rl_status rl_governor_forget(rl_governor *governor,
                             const char *method,
                             const char *url,
                             const char *authorization);

/**
 * Asks again, after the wait of `RL_STEP_WAIT` or `RL_STEP_RETRY`. The advice is as from `rl_governor_before`.
 *
 * @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
 */
rl_status rl_governor_resume(rl_governor *governor,
                             rl_ticket *ticket,
                             rl_advice *out);

/**
 * Tells what came back.
 *
 * @param status       The HTTP status.
 * @param headers      The lines of the header, `headers_len` of them; those that are no UTF-8 are left out.
 * @param body         The body or its beginning, `body_len` bytes; of refusals it is needed, since some APIs say only
 *                     there how long to wait.
 * @param out          `RL_STEP_RETURN`, `RL_STEP_RETRY` or `RL_STEP_FAIL`.
 * @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
 */
rl_status rl_governor_after(rl_governor *governor,
                            rl_ticket *ticket,
                            uint16_t status,
                            const rl_header *headers,
                            size_t headers_len,
                            const uint8_t *body,
                            size_t body_len,
                            rl_advice *out);

/**
 * Tells that a request failed before any response came, so that others need not wait for what it would have told.
 */
rl_status rl_governor_abandon(rl_governor *governor,
                              rl_ticket *ticket);

/**
 * Frees a ticket. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
 */
void rl_ticket_free(rl_ticket *ticket);

/**
 * Writes all metrics as Prometheus text with a zero byte at the end, if there is room for all of it: counters of the
 * calls let pass and refused, by policy and source, of errors by kind, how long servers took to answer, and how the
 * stores are. The counters are those of this process and of those it shares them with by `fork`.
 *
 * @param buf  Where to write; `NULL` to write nothing.
 * @param len  Bytes at `buf`.
 * @return The bytes that the text takes, its zero byte included. When that is more than `len`, nothing was written; the
 *         text may have grown by the next call.
 */
size_t rl_metrics(char *buf,
                  size_t len);

/**
 * Has a function called for each decision of the limiter from now on. Best right after `rl_limiter_new`, before anybody
 * asks it.
 *
 * @param callback   The function.
 * @param user_data  Given to it as it is. Must be good for as long as there is the limiter, from any thread that uses it.
 * @return `RL_ERR_INVALID_ARGUMENT` when the limiter has such a function already.
 */
rl_status rl_limiter_set_on_decision(rl_limiter *limiter,
                                     rl_on_decision callback,
                                     void *user_data);

/**
 * Has a function called each time the limiter's store gives no usable answer, from now on. Best right after
 * `rl_limiter_new`, before anybody asks it.
 *
 * @param callback   The function.
 * @param user_data  As for `rl_limiter_set_on_decision`.
 * @return `RL_ERR_INVALID_ARGUMENT` when the limiter has such a function already.
 */
rl_status rl_limiter_set_on_store_error(rl_limiter *limiter,
                                        rl_on_store_error callback,
                                        void *user_data);

/**
 * The version of the library that runs, such as `0.1.0`. Valid for ever.
 */
const char *rl_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RATELIMIT_H */
