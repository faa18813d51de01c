/* Short ways to a limiter, for tests that are not about making one. */
#ifndef LIMITER_H
#define LIMITER_H

#include "server.h"

#include <ratelimit.h>

/* A limiter on the store of a DSN, by a token bucket; `options` may be NULL. */
rl_limiter *limiter_on(const char *dsn, uint64_t capacity, double rate, double interval_s,
                       const rl_limiter_options *options);

/* The DSN of a server, with time limits that a slow machine does not reach; the next call overwrites it. */
const char *dsn_of(const server *server);

/* A DSN of a port, with the given time limit in seconds for connecting and for answering; the next call overwrites it. */
const char *dsn_with_limit(int port, double seconds);

/* `rl_allow` and `rl_peek` for a key that is a text. */
rl_status allow(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out);
rl_status peek(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out);

/* Takes one unit, which must pass, and returns what remains. */
uint64_t remaining_after_one(rl_limiter *limiter, const char *key);

#endif
