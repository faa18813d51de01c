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
 * A wait that never ends: the cost is above what can ever pass. The `retry_after_us` of such a denial.
 */
#define RL_NEVER UINT64_MAX

/**
 * What came of a call. On anything but `RL_OK` the call's outputs are as they were before, and `rl_last_error()` has
 * a sentence about it. A denial is no error: it is `RL_OK` with `allowed` false.
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
 * Decides by its policies, with the state in its store. May be used from any thread at the same time, and after
 * `fork` by parent and child; calls on a Redis store block until its answer or its time limit.
 */
typedef struct rl_limiter rl_limiter;

/**
 * How much is allowed: an algorithm with its numbers and a name. Any number of limiters may be made from it, from
 * any thread; only `rl_policy_set_name` wants it for itself.
 */
typedef struct rl_policy rl_policy;

/**
 * Where the state of every key lives: memory of this process, or a Redis or Valkey server. May be used from any
 * thread at the same time, and after `fork` by parent and child.
 */
typedef struct rl_store rl_store;

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
   * The index of the policy that ruled: it refused with the longest wait, or has least left.
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
   * Microseconds until the caller may start, for functions that hand out slots; else 0.
   */
  uint64_t delay_us;
} rl_decision;

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
 * | `memory:` | this process; `?max_keys=` (1000000) |
 * | `redis://[user:password@]host[:port][/database]` | a server over TCP |
 * | `redis+unix:///path/to/socket` | a server on this host; `?db=`, `?username=`, `?password=` |
 *
 * Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`) and
 * `?pool=` (idle connections kept, 64). The same DSN names the same store within a process, however often it is
 * opened.
 *
 * @param dsn  UTF-8. `NULL`: the environment variable `RATELIMIT_STORE`, and without that `memory:`.
 * @param out  The store, to be freed with `rl_store_free`.
 * @return `RL_ERR_INVALID_STORE` for a DSN that names none; the sentence says which part is wrong.
 */
rl_status rl_store_open(const char *dsn,
                        rl_store **out);

/**
 * Frees a store. Limiters made with it go on working, and whoever opens the same DSN later finds its memory or its idle
 * connections as they were. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
 */
void rl_store_free(rl_store *store);

/**
 * A token bucket: holds up to `capacity` tokens and is full at first; a call takes its cost in tokens.
 *
 * @param capacity           Tokens, 1 to 2147483647.
 * @param refill_rate        Tokens that come back per interval, positive and finite; 0.1 is exactly a tenth.
 * @param refill_interval_s  Seconds, positive and finite.
 * @param continuous         false: the tokens come at the end of each interval. true: they trickle in all the time.
 * @param out                The policy, named `default`; to be freed with `rl_policy_free`.
 * @return `RL_ERR_INVALID_POLICY` for numbers out of range, or too far apart to be counted exactly.
 */
rl_status rl_policy_token_bucket(uint64_t capacity,
                                 double refill_rate,
                                 double refill_interval_s,
                                 bool continuous,
                                 rl_policy **out);

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
 * Binds a policy to a store. Asks the store nothing, so it is cheap and works while the store is away.
 *
 * @param policies  Pointers to `n` policies. The limiter keeps what it needs: free them when you like.
 * @param n         1: a limiter takes one policy.
 * @param store     Kept by the limiter as well.
 * @param options   `NULL`: the defaults.
 * @param out       The limiter, to be freed with `rl_limiter_free`.
 * @return `RL_ERR_INVALID_ARGUMENT` for another `n` or an option out of range, `RL_ERR_INVALID_POLICY` for a policy
 *         that cannot be divided by `share`.
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
 * Takes `cost` units of the key's budget, if they are there. One round trip on a Redis store.
 *
 * @param key      Whose budget: any bytes, `key_len` of them; `NULL` only when `key_len` is 0. A long or unprintable
 *                 key is stored as its hash.
 * @param cost     Units, 1 to 2147483647. More than the limit is no error: it is denied with `RL_NEVER`.
 * @param out      The decision.
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
 * `rl_allow` as of a given instant instead of the store's clock, for tests and for replaying a log. Calls on one key
 * must not mix this with `rl_allow`: an embedded store's own clock does not count from 1970.
 *
 * @param now_us  Microseconds since 1970, below 2^53.
 */
rl_status rl_allow_at(rl_limiter *limiter,
                      const uint8_t *key,
                      size_t key_len,
                      int64_t cost,
                      uint64_t now_us,
                      rl_decision *out);

/**
 * `rl_peek` as of a given instant; see `rl_allow_at`.
 */
rl_status rl_peek_at(rl_limiter *limiter,
                     const uint8_t *key,
                     size_t key_len,
                     int64_t cost,
                     uint64_t now_us,
                     rl_decision *out);

/**
 * Forgets what a key has used: its budget is whole again.
 *
 * @param key  As for `rl_allow`.
 * @return `RL_ERR_STORE_UNAVAILABLE` whatever `on_error` says: no rule can stand in for forgetting.
 */
rl_status rl_reset(rl_limiter *limiter, const uint8_t *key, size_t key_len);

/**
 * Writes the header fields of a decision, each as `Name: value\r\n`, with a zero byte at the end. A denial has a
 * `Retry-After`, unless no wait helps.
 *
 * Either call it twice, first with `NULL` for `buf` to learn the length, or once with 1024 bytes, which are enough
 * for one policy of any name.
 *
 * @param limiter   The limiter that decided.
 * @param decision  What it decided.
 * @param style     `NULL` or `ietf` (RateLimit and RateLimit-Policy), `draft-7`, `draft-3`, `x-ratelimit`, or `none`
 *                  for `Retry-After` alone.
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
 * The version of the library that runs, such as `0.1.0`. Valid for ever.
 */
const char *rl_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RATELIMIT_H */
