/* Short ways to a limiter, for tests that are not about making one. */
#ifndef LIMITER_H
#define LIMITER_H

#include "server.h"

#include <ratelimit.h>

/* A limiter on the store of a DSN, by a token bucket; `options` may be NULL. */
rl_limiter *limiter_on(const char *dsn, uint64_t capacity, double rate, double interval_s,
                       const rl_limiter_options *options);

/* A policy's name and its text for `rl_policy_parse`. */
typedef struct {
  const char *name, *text;
} named_policy;

/* A limiter on the store of a DSN, by `n` policies; `options` may be NULL. */
rl_limiter *limiter_by(const char *dsn, size_t n, const named_policy *policies, const rl_limiter_options *options);

/* A policy of every algorithm, by which five units pass and the sixth waits for an hour or longer. */
enum { ALGORITHMS = 8 };
extern const named_policy five_of[ALGORITHMS];

/* The DSN of a server, with time limits that a slow machine does not reach; the next call overwrites it. */
const char *dsn_of(const server *server);

/* A DSN of a port, with the given time limit in seconds for connecting and for answering; the next call overwrites it. */
const char *dsn_with_limit(int port, double seconds);

/* The verbs for a key that is a text. */
rl_status allow(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out);
rl_status peek(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out);
rl_status reserve(rl_limiter *limiter, const char *key, int64_t cost, uint64_t max_wait_us, rl_decision *out);
rl_status wait_for(rl_limiter *limiter, const char *key, int64_t cost, uint64_t max_wait_us, rl_decision *out);
rl_status refund(rl_limiter *limiter, const char *key, int64_t cost);

/* A call of a verb on a key that is a text, for `rl_decide`. */
rl_call call_of(rl_verb verb, const char *key, int64_t cost);

/* Makes the call, with no decision per policy. */
rl_status decide(rl_limiter *limiter, const rl_call *call, rl_decision *out);

/* `rl_allow` at an instant. */
rl_status allow_at(rl_limiter *limiter, const char *key, int64_t cost, uint64_t now_us, rl_decision *out);

/* A key that is a text, for the policy of that name. */
rl_key key_of(const char *policy, const char *key);

/* Takes one unit, which must pass, and returns what remains. */
uint64_t remaining_after_one(rl_limiter *limiter, const char *key);

/* What remains, taking nothing. */
uint64_t remaining(rl_limiter *limiter, const char *key);

#endif
